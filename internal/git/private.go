package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
)

// A ref of the host that is shown inside.
type ref struct {
	name, id, peeled string
}

// snapshot lists the host's branches and tags. Those of sandboxes are not shown to
// others.
func snapshot(ctx context.Context, common string) ([]ref, error) {
	r := &Repository{Common: common}
	if !isDir(filepath.Join(common, "reftable")) {
		if refs, _, err := r.plainRefs(); err == nil && !r.odd {
			return refs, nil
		}
	}
	out, err := r.git().run(ctx, "", "for-each-ref", "--format=%(objectname) %(refname) %(*objectname)", "refs/heads/", "refs/tags/")
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
func packed(refs []ref) string {
	slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n") // which are tags of tags, git looks up
	for _, r := range refs {
		fmt.Fprintf(&b, "%s %s\n", r.id, r.name)
		if r.peeled != "" {
			fmt.Fprintf(&b, "^%s\n", r.peeled)
		}
	}
	return b.String()
}

// carried are the settings of the user's that count inside too: who commits, and how
// files are read and written.
var carried = []string{
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.filemode", "core.symlinks", "core.ignorecase", "core.quotepath",
	"core.sparsecheckout", "core.sparsecheckoutcone", "i18n.commitencoding", "i18n.logoutputencoding", "init.defaultbranch",
	"pull.rebase", "pull.ff", "merge.conflictstyle", "rebase.autosquash", "rerere.enabled", "diff.algorithm", "commit.cleanup", "color.ui",
	"core.hookspath", "gc.auto", "maintenance.auto",
	"filter.lfs.clean", "filter.lfs.smudge", "filter.lfs.process", "filter.lfs.required",
}

// contents are the files of the sandbox's git directory, but for the index, and of what it
// sees of the host's. Git need not be asked: it takes any directory of this shape, and makes
// itself what else it needs.
func (b *Bridge) contents(r *Repository, refs []ref) (private, export []rootfs.File, err error) {
	var alternates strings.Builder
	for i := range b.Objects {
		fmt.Fprintf(&alternates, "%s/%d\n", b.insideObjects(), i)
	}
	inside := make([]ref, 0, len(refs)+1)
	for _, f := range refs {
		if short, ok := strings.CutPrefix(f.name, "refs/heads/"); ok {
			f.name = "refs/remotes/origin/" + short
		}
		inside = append(inside, f)
	}
	if b.Base != "" {
		inside = append(inside, ref{name: b.branchRef(), id: b.Base})
	}
	add := func(to *[]rootfs.File, name, data string) { *to = append(*to, rootfs.File{Name: name, Data: data}) }
	add(&private, "HEAD", "ref: "+b.branchRef()+"\n")
	add(&private, "config", b.config(r))
	add(&private, "packed-refs", packed(inside))
	if e := r.excludes(); e != "" {
		add(&private, "info/exclude", e)
	}
	for name, dir := range map[string]string{"info/sparse-checkout": b.Admin, "info/attributes": b.Common, "shallow": b.Common} {
		data, err := readIn(dir, name, maxInfo)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		add(&private, name, string(data))
		if name == "shallow" {
			add(&export, name, string(data))
		}
	}
	private = append(private, r.hooks()...)

	head := b.Base
	if head == "" {
		head = "ref: refs/heads/main"
	}
	add(&export, "HEAD", head+"\n")
	add(&export, "config", bareConfig(b.Format))
	add(&export, "packed-refs", packed(refs))
	for _, to := range []*[]rootfs.File{&private, &export} {
		add(to, "objects/info/alternates", alternates.String())
	}
	return private, export, nil
}

// writePrivate makes both directories.
func (b *Bridge) writePrivate(r *Repository, refs []ref) error {
	private, export, err := b.contents(r, refs)
	if err != nil {
		return err
	}
	dir := b.private()
	for _, d := range []string{"hooks", "info"} { // where people put things
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := writeFiles(dir, private); err != nil {
		return err
	}
	// The index is good for both sides: the files are the same ones.
	if err := copyIn(b.Admin, "index", filepath.Join(dir, "index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if b.Over {
		if isDir(filepath.Join(b.Common, "modules")) { // to lay the host's on
			if err := os.Mkdir(filepath.Join(dir, "modules"), 0o755); err != nil {
				return err
			}
		}
	} else if err := os.WriteFile(b.pointer(), []byte(b.pointerText()), 0o644); err != nil {
		return err
	}
	return writeFiles(b.export(), export)
}

func (b *Bridge) pointerText() string { return "gitdir: " + b.InsideDir() + "\n" }

// writeFiles makes a git directory of files, and refs to be.
func writeFiles(dir string, files []rootfs.File) error {
	if err := os.MkdirAll(filepath.Join(dir, "refs"), 0o755); err != nil {
		return err
	}
	for _, f := range files {
		path, mode := filepath.Join(dir, f.Name), os.FileMode(0o644)
		if strings.Contains(f.Name, "/") {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if f.Exec {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(f.Data), mode); err != nil {
			return err
		}
	}
	return nil
}

// maxHooks and maxHook bound what is copied of the repository's hooks.
const (
	maxHooks = 64
	maxHook  = 64 << 10
)

// hooks are the repository's, for the sandbox to run inside. Those that core.hooksPath
// names in the tree are there already.
func (r *Repository) hooks() (files []rootfs.File) {
	root, err := os.OpenRoot(r.Common)
	if err != nil {
		return nil
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), "hooks")
	if err != nil {
		return nil // there are none
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".sample") || !e.Type().IsRegular() || len(files) == maxHooks {
			continue
		}
		info, err := e.Info()
		if err != nil || info.Mode()&0o100 == 0 || info.Size() > maxHook {
			continue
		}
		if data, err := readIn(r.Common, "hooks/"+e.Name(), maxHook); err == nil {
			files = append(files, rootfs.File{Name: "hooks/" + e.Name(), Data: string(data), Exec: true})
		}
	}
	return files
}

// config is the private directory's, from values that git on the host told.
func (b *Bridge) config(r *Repository) string {
	var c strings.Builder
	version := 0
	if b.Format != "sha1" || r.partial() {
		version = 1
	}
	fmt.Fprintf(&c, "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n", version)
	if b.Format != "sha1" {
		fmt.Fprintf(&c, "[extensions]\n\tobjectformat = %s\n", b.Format)
	}
	if r.partial() { // what is missing is not lost, though it cannot be had
		fmt.Fprint(&c, "[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\tpromisor = true\n")
	}
	fmt.Fprintf(&c, "[remote \"origin\"]\n\turl = %s\n\tpushurl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[push]\n\tdefault = current\n[gc]\n\tautoDetach = false\n", b.insideHost(), b.pushURL())
	if b.Upstream {
		c.WriteString(b.upstreamConfig())
	}
	for _, key := range carried {
		value, ok := r.config[key]
		switch {
		case key == "core.hookspath":
			value = r.hooksPath()
			ok = value != ""
		}
		if !ok || strings.ContainsRune(value, 0) {
			continue
		}
		writeSetting(&c, key, value)
	}
	return c.String()
}

// writeSetting writes a setting as git's configuration has it.
func writeSetting(c *strings.Builder, key, value string) {
	section, name := key[:strings.LastIndexByte(key, '.')], key[strings.LastIndexByte(key, '.')+1:]
	if first, second, ok := strings.Cut(section, "."); ok {
		section = fmt.Sprintf("%s %q", first, second)
	}
	fmt.Fprintf(c, "[%s]\n\t%s = %s\n", section, name, quote(value))
}

// quote writes a value as git's configuration has it.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(value) + `"`
}

// maxExcludes bounds the user's own list of files to ignore.
const maxExcludes = 1 << 20

// excludes is what the user ignores everywhere and in this repository: the files are
// not where git inside would look.
func (r *Repository) excludes() string {
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
	add := func(b []byte, err error) {
		if err == nil && !blank(b) {
			all = append(append(all, b...), '\n')
		}
	}
	if info, err := os.Stat(everywhere); err == nil && info.Mode().IsRegular() && info.Size() <= maxExcludes {
		add(os.ReadFile(everywhere))
	}
	add(readIn(r.Common, "info/exclude", maxExcludes))
	return string(all)
}

// blank says whether there is nothing but comments.
func blank(b []byte) bool {
	for line := range bytes.Lines(b) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// bareConfig is the config of the repository that the sandbox fetches from: the host's
// branches and tags, and no objects of its own.
func bareConfig(format string) string {
	if format != "sha1" {
		return fmt.Sprintf("[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %s\n", format)
	}
	return "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
}

// showRefs writes them where git inside fetches from.
func (b *Bridge) showRefs(refs []ref) error {
	text := packed(refs)
	if text == b.shown {
		return nil
	}
	path := filepath.Join(b.export(), "packed-refs")
	if err := (safepath.File{Path: path, Mode: 0o644, Alone: true}).Write([]byte(text)); err != nil {
		return err
	}
	b.shown = text
	return nil
}
