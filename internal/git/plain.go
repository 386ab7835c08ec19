package git

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// errNotPlain is about a repository that only git can read.
var errNotPlain = errors.New("the repository is not made of plain files")

// Read is Find for a directory that has a .git itself and of which little is to be known,
// without asking git: to start a program takes longer than to start a sandbox. What is not
// plain is an error, and [ErrNoRepository] what is none, or somebody else's.
func Read(ctx context.Context, dir string) (*Repository, error) {
	at, err := rootfs.FindRepository(dir)
	if err != nil || at.Own == "" || !rootfs.IsGitDir(at.Common) || !mine(at.Common) {
		return nil, ErrNoRepository
	}
	r := &Repository{Common: at.Common, Dir: at.Own, Top: dir, Prefix: ".", Format: "sha1"}
	if err := r.readPlain(ctx); err != nil {
		return nil, err
	}
	if f := r.config["extensions.objectformat"]; f != "" {
		r.Format = f
	}
	if r.config["extensions.refstorage"] != "" && r.config["extensions.refstorage"] != "files" {
		return nil, errNotPlain
	}
	return r, nil
}

// readPlain is readConfig without asking git, where its files say it plainly.
func (r *Repository) readPlain(ctx context.Context) error {
	r.config = map[string]string{}
	included := false
	read := func(file string, own bool) {
		rootfs.GitConfig(file, func(key, value string) {
			r.know(setting{key, value, own})
			included = included || strings.HasPrefix(key, "include")
		})
	}
	for _, file := range configFiles() {
		read(file, false)
	}
	read(filepath.Join(r.Common, "config"), true)
	if r.config["extensions.worktreeconfig"] == "true" {
		read(filepath.Join(r.Dir, "config.worktree"), true)
	}
	if included { // by rules of git's own
		return r.readConfig(ctx)
	}
	return nil
}

// mine says whether a directory is the caller's: git minds nobody else's repositories.
func mine(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// configFiles are the system's and the user's own, in the order in which they count.
func configFiles() (files []string) {
	if os.Getenv("GIT_CONFIG_NOSYSTEM") == "" {
		files = append(files, "/etc/gitconfig")
		if f := os.Getenv("GIT_CONFIG_SYSTEM"); f != "" {
			files[0] = f
		}
	}
	if f, ok := os.LookupEnv("GIT_CONFIG_GLOBAL"); ok {
		return append(files, f)
	}
	home := os.Getenv("HOME")
	xdg := os.Getenv("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	return append(files, filepath.Join(xdg, "git/config"), filepath.Join(home, ".gitconfig"))
}

// plainRefs lists branches and tags, and those of sandboxes apart.
func (r *Repository) plainRefs() (refs []ref, sandboxes map[string]bool, err error) {
	all := map[string]ref{}
	if err := packedRefs(r.Common, all, "refs/heads/", "refs/tags/"); err != nil {
		return nil, nil, err
	}
	for _, dir := range []string{"refs/heads", "refs/tags"} {
		if err := looseRefs(r.Common, dir, all); err != nil {
			return nil, nil, err
		}
	}
	sandboxes = map[string]bool{}
	for name, f := range all {
		if f.id == "" { // one that just went, or leads to another, is none
			r.odd = true
			continue
		}
		if short, ok := strings.CutPrefix(name, "refs/heads/coffer/"); ok {
			sandboxes["coffer/"+short] = true
		} else {
			refs = append(refs, f)
		}
	}
	slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.name, b.name) })
	return refs, sandboxes, nil
}

// packedRefs reads those whose names begin so from the file that git packs refs into.
func packedRefs(common string, all map[string]ref, prefixes ...string) error {
	f, err := openIn(common, "packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	last := ""
	for lines.Scan() {
		line := lines.Text()
		if peeled, ok := strings.CutPrefix(line, "^"); ok && last != "" {
			f := all[last]
			f.peeled = peeled
			all[last] = f
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		last = ""
		if ok && isID(id) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			last = name
			all[name] = ref{name: name, id: id}
		}
	}
	return lines.Err()
}

// looseRefs reads refs that are files of their own. They count more than packed ones.
func looseRefs(common, dir string, all map[string]ref) error {
	entries, err := os.ReadDir(filepath.Join(common, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := dir + "/" + e.Name()
		switch {
		case e.IsDir():
			if err := looseRefs(common, name, all); err != nil {
				return err
			}
		case e.Type().IsRegular() && !strings.HasSuffix(name, ".lock"):
			all[name] = ref{name: name, id: readID(common + "/" + name)}
		}
	}
	return nil
}

// readID reads the name of an object from a file, in three system calls: there may be many.
func readID(path string) string {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	var b [80]byte
	n, err := syscall.Read(fd, b[:])
	if id := strings.TrimSpace(string(b[:max(n, 0)])); err == nil && isID(id) {
		return id
	}
	return ""
}

// HeadNow is the commit that is checked out, read without asking git; "" if there is none.
func (r *Repository) HeadNow() (id string, err error) { return r.plainHead() }

// plainHead is the commit that is checked out, or nothing if there is none yet.
func (r *Repository) plainHead() (id string, err error) {
	name := "HEAD"
	for range 5 {
		dir := r.Common
		if name == "HEAD" {
			dir = r.Dir
		}
		line, err := firstLine(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			all := map[string]ref{}
			err = packedRefs(r.Common, all, "refs/heads/", "refs/tags/")
			return all[name].id, err
		}
		if err != nil {
			return "", err
		}
		if isID(line) {
			return line, nil
		}
		to, ok := strings.CutPrefix(line, "ref: ")
		if name = strings.TrimSpace(to); !ok || !strings.HasPrefix(name, "refs/") || strings.Contains(name, "..") {
			return "", errNotPlain
		}
	}
	return "", errNotPlain
}

// isID says whether a word is the name of an object.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
