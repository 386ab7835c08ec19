package git

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// carried are the user's settings that count inside too: who commits, and how files are
// read and written.
var carried = []string{
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"core.autocrlf", "core.eol", "core.safecrlf", "core.filemode", "core.symlinks", "core.ignorecase", "core.quotepath",
	"core.sparsecheckout", "core.sparsecheckoutcone", "i18n.commitencoding", "i18n.logoutputencoding", "init.defaultbranch",
	"pull.rebase", "pull.ff", "merge.conflictstyle", "rebase.autosquash", "rerere.enabled", "diff.algorithm", "commit.cleanup", "color.ui",
	"core.hookspath", "gc.auto", "maintenance.auto",
	"filter.lfs.clean", "filter.lfs.smudge", "filter.lfs.process", "filter.lfs.required",
}

// writePrivate makes the sandbox's git directory, and the repository that it fetches from:
// the host's branches and tags, without objects of its own. Git takes any directory of this
// shape, and creates what else it needs.
func (b maker) writePrivate(refs []Ref) error {
	var alternates strings.Builder
	for i := range b.Objects {
		fmt.Fprintf(&alternates, "%s/%d\n", b.insideObjects(), i)
	}
	inside := slices.Clone(refs)
	for i := range inside {
		if short, ok := strings.CutPrefix(inside[i].Name, "refs/heads/"); ok {
			inside[i].Name = "refs/remotes/origin/" + short
		}
	}
	head := "ref: refs/heads/main"
	if b.Base != "" {
		head = b.Base
		inside = append(inside, Ref{Name: b.branchRef(), ID: b.Base})
	}
	b.shown.text = packed(refs)
	private := map[string]string{
		"HEAD": "ref: " + b.branchRef() + "\n", "config": b.config(), "packed-refs": packed(inside),
		"info/exclude": b.from.excludes(), "objects/info/alternates": alternates.String(),
	}
	export := map[string]string{
		"HEAD": head + "\n", "config": bareConfig(b.Format), "packed-refs": b.shown.text, "objects/info/alternates": alternates.String(),
	}
	for name, dir := range map[string]string{"info/sparse-checkout": b.Admin, "info/attributes": b.Common, "shallow": b.Common} {
		data, err := readIn(dir, name, maxInfo)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if private[name] = string(data); name == "shallow" {
			export[name] = string(data)
		}
	}
	dir := string(b.private())
	if err := errors.Join(writeFiles(dir, private), writeFiles(b.export(), export), b.from.copyHooks(filepath.Join(dir, "hooks")), b.copyIndex(dir)); err != nil {
		return err
	}
	if !b.Over {
		return os.WriteFile(filepath.Join(b.dir, pointerName), []byte(b.pointerText()), 0o644)
	}
	if isDir(filepath.Join(b.Common, "modules")) { // the host's are mounted on it
		return os.Mkdir(filepath.Join(dir, "modules"), 0o755)
	}
	return nil
}

// copyIndex copies the host's index, which is good for both sides: the files are the same.
func (b maker) copyIndex(dir string) error {
	shared, _ := filepath.Glob(filepath.Join(escapeGlob(b.Admin), "sharedindex.*"))
	for _, file := range append(shared, "index") {
		name := filepath.Base(file)
		if err := copyIn(b.Admin, name, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeFiles makes a git directory of files, and room for refs.
func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(filepath.Join(dir, "refs"), 0o755); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
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

// copyHooks copies the repository's hooks, for the sandbox to run inside. Those that
// core.hooksPath names in the tree are there already.
func (r *Repository) copyHooks(to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(r.Common)
	if err != nil {
		return nil
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), "hooks")
	n := 0
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || strings.HasSuffix(e.Name(), ".sample") || !info.Mode().IsRegular() || info.Mode()&0o100 == 0 || n == maxHooks {
			continue
		}
		if data, err := readIn(r.Common, "hooks/"+e.Name(), maxHook); err == nil {
			if err := os.WriteFile(filepath.Join(to, e.Name()), data, 0o755); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// config is the private directory's.
func (b maker) config() string {
	var c strings.Builder
	version := 0
	if b.Format != "sha1" || b.from.partial() {
		version = 1
	}
	fmt.Fprintf(&c, "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n", version)
	if b.Format != "sha1" {
		fmt.Fprintf(&c, "[extensions]\n\tobjectformat = %s\n", b.Format)
	}
	if b.from.partial() { // what is missing is not lost, though git inside cannot get it
		fmt.Fprint(&c, "[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\tpromisor = true\n")
	}
	fmt.Fprintf(&c, "[remote \"origin\"]\n\turl = %s\n\tpushurl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[push]\n\tdefault = current\n[gc]\n\tautoDetach = false\n", b.insideHost(), b.pushURL())
	if b.Upstream {
		// It asks the user, so only a fetch that names it gets it.
		fmt.Fprintf(&c, "[remote \"upstream\"]\n\turl = file://%s/upstream\n\tuploadpack = %s/bin/coffer %s\n\tpushurl = %s\n\tfetch = +refs/heads/*:refs/remotes/upstream/*\n\tskipFetchAll = true\n",
			b.pushPath(), rootfs.Own, UpstreamCommand, b.pushURL())
	}
	for _, key := range carried {
		value := b.from.config[key]
		if key == "core.hookspath" {
			value = b.from.hooksPath()
		}
		if value != "" {
			writeSetting(&c, key, value)
		}
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

// maxExcludes bounds a list of files to ignore.
const maxExcludes = 1 << 20

// excludes is what the user ignores everywhere and in this repository: the files are not
// where git inside would look.
func (r *Repository) excludes() string {
	everywhere := r.config["core.excludesfile"]
	if rest, ok := strings.CutPrefix(everywhere, "~/"); ok {
		home, _ := os.UserHomeDir()
		everywhere = filepath.Join(home, rest)
	}
	if everywhere == "" {
		everywhere = filepath.Join(userConfigDir(), "ignore")
	}
	var all []byte
	add := func(b []byte, err error) {
		// What git init writes is only comments.
		rules := slices.ContainsFunc(bytes.Split(b, []byte("\n")), func(line []byte) bool {
			line = bytes.TrimSpace(line)
			return len(line) > 0 && line[0] != '#'
		})
		if err == nil && rules {
			all = append(append(all, b...), '\n')
		}
	}
	if info, err := os.Stat(everywhere); err == nil && info.Mode().IsRegular() && info.Size() <= maxExcludes {
		add(os.ReadFile(everywhere))
	}
	add(readIn(r.Common, "info/exclude", maxExcludes))
	return string(all)
}

// userConfigDir is the directory of git's own files in the user's home.
func userConfigDir() string {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, _ := os.UserHomeDir()
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "git")
}

// bareConfig is the config of a repository without a working tree.
func bareConfig(format string) string {
	if format == "sha256" {
		return fmt.Sprintf("[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %s\n", format)
	}
	return "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
}
