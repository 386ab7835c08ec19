package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A ref of the host that is shown inside.
type ref struct {
	name, id, peeled string
}

// snapshot lists the host's branches and tags. Those of sandboxes are not shown to
// others.
func (r *Repository) snapshot(ctx context.Context) ([]ref, error) {
	return snapshot(ctx, r.git())
}

func snapshot(ctx context.Context, h host) ([]ref, error) {
	out, err := h.run(ctx, "", "for-each-ref", "--format=%(objectname) %(refname) %(*objectname)", "refs/heads/", "refs/tags/")
	if err != nil {
		return nil, err
	}
	var refs []ref
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(f) != 3 || strings.HasPrefix(f[1], "refs/heads/coffer/") {
			continue
		}
		refs = append(refs, ref{name: f[1], id: f[0], peeled: f[2]})
	}
	return refs, nil
}

// packed writes refs as git packs them.
func packed(refs []ref) []byte {
	slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, r := range refs {
		fmt.Fprintf(&b, "%s %s\n", r.id, r.name)
		if r.peeled != "" {
			fmt.Fprintf(&b, "^%s\n", r.peeled)
		}
	}
	return []byte(b.String())
}

// carried are the settings of the user's that count inside too: who commits, and how
// files are read and written.
var carried = []string{
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.filemode", "core.symlinks", "core.ignorecase", "core.quotepath",
	"core.sparsecheckout", "core.sparsecheckoutcone", "i18n.commitencoding", "i18n.logoutputencoding", "init.defaultbranch",
	"pull.rebase", "pull.ff", "merge.conflictstyle", "rebase.autosquash", "rerere.enabled", "diff.algorithm", "commit.cleanup", "color.ui",
	"filter.lfs.clean", "filter.lfs.smudge", "filter.lfs.process", "filter.lfs.required",
}

// writePrivate makes the sandbox's git directory, and what it sees of the host's. Git
// need not be asked: it takes any directory of this shape.
func (b *Bridge) writePrivate(r *Repository, refs []ref) error {
	dir := b.private()
	for _, d := range []string{"hooks", "info", "objects/info", "objects/pack", "refs/tags", filepath.Dir("refs/heads/" + b.Branch)} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	var alternates strings.Builder
	for i := range b.Objects {
		fmt.Fprintf(&alternates, "%s/%d\n", insideObjects, i)
	}
	inside := make([]ref, 0, len(refs))
	for _, f := range refs {
		if short, ok := strings.CutPrefix(f.name, "refs/heads/"); ok {
			f.name = "refs/remotes/origin/" + short
		}
		inside = append(inside, f)
	}
	files := map[string][]byte{
		"HEAD":                    []byte("ref: " + b.branchRef() + "\n"),
		"config":                  b.config(r),
		"refs/heads/" + b.Branch:  []byte(b.Base + "\n"),
		"packed-refs":             packed(inside),
		"objects/info/alternates": []byte(alternates.String()),
		"info/exclude":            r.excludes(),
	}
	// The index is good for both sides: the files are the same ones.
	for to, from := range map[string]string{
		"index": filepath.Join(b.Admin, "index"), "info/sparse-checkout": filepath.Join(b.Admin, "info/sparse-checkout"),
		"info/attributes": filepath.Join(b.Common, "info/attributes"), "shallow": filepath.Join(b.Common, "shallow"),
	} {
		data, err := os.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files[to] = data
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(b.pointer(), []byte("gitdir: "+InsideDir+"\n"), 0o644); err != nil {
		return err
	}
	return b.writeExport(refs, []byte(alternates.String()), files["shallow"])
}

// config is the private directory's, from values that git on the host told.
func (b *Bridge) config(r *Repository) []byte {
	var c strings.Builder
	version := 0
	if b.Format != "sha1" {
		version = 1
	}
	fmt.Fprintf(&c, "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n", version)
	if version == 1 {
		fmt.Fprintf(&c, "[extensions]\n\tobjectformat = %s\n", b.Format)
	}
	fmt.Fprintf(&c, "[remote \"origin\"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", insideHost)
	for _, key := range carried {
		value, ok := r.config[key]
		if !ok || strings.ContainsRune(value, 0) {
			continue
		}
		section, name := key[:strings.LastIndexByte(key, '.')], key[strings.LastIndexByte(key, '.')+1:]
		if first, second, ok := strings.Cut(section, "."); ok {
			section = fmt.Sprintf("%s %q", first, second)
		}
		fmt.Fprintf(&c, "[%s]\n\t%s = %s\n", section, name, quote(value))
	}
	return []byte(c.String())
}

// quote writes a value as git's configuration has it.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(value) + `"`
}

// maxExcludes bounds the user's own list of files to ignore.
const maxExcludes = 1 << 20

// excludes is what the user ignores everywhere and in this repository: the files are
// not where git inside would look.
func (r *Repository) excludes() []byte {
	everywhere := r.config["core.excludesfile"]
	home, _ := os.UserHomeDir()
	switch rest, ok := strings.CutPrefix(everywhere, "~/"); {
	case ok:
		everywhere = filepath.Join(home, rest)
	case everywhere == "" && os.Getenv("XDG_CONFIG_HOME") != "":
		everywhere = filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "git/ignore")
	case everywhere == "":
		everywhere = filepath.Join(home, ".config/git/ignore")
	}
	var all []byte
	for _, file := range []string{everywhere, filepath.Join(r.Common, "info/exclude")} {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxExcludes {
			continue
		}
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			all = append(append(all, b...), '\n')
		}
	}
	return all
}

// writeExport makes the read-only repository that the sandbox fetches from: the host's
// branches and tags as they were, and no objects of its own.
func (b *Bridge) writeExport(refs []ref, alternates, shallow []byte) error {
	dir := b.export()
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if b.Format != "sha1" {
		config = fmt.Sprintf("[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %s\n", b.Format)
	}
	files := map[string][]byte{
		"HEAD": []byte(b.Base + "\n"), "config": []byte(config), "packed-refs": packed(refs), "objects/info/alternates": alternates,
	}
	if shallow != nil {
		files["shallow"] = shallow
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", data, 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// Refresh shows the sandbox the host's branches and tags as they are now.
func (b *Bridge) Refresh(ctx context.Context) error {
	refs, err := snapshot(ctx, b.refs())
	if err != nil {
		return err
	}
	path := filepath.Join(b.export(), "packed-refs")
	if err := os.WriteFile(path+".new", packed(refs), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
