package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// private is a sandbox's git directory. The sandbox writes it, so git never runs on it
// here: these few things are read, or removed while nothing runs inside, without following
// a link out of it.
type private string

// Bounds of what is read: the sandbox makes it.
const (
	maxLook          = 5000 // refs
	maxDeep          = 32
	maxPackedRefs    = 16 << 20
	maxPrivateConfig = 256 << 10
	maxLocks         = 20000 // names
)

// look describes what the refs look like. It is different after a ref has moved: only what
// the kernel knows of the files counts, and programs cannot set the time of a change.
func (p private) look() string {
	root, err := os.OpenRoot(string(p))
	if err != nil {
		return "none"
	}
	defer root.Close()
	l := looker{root: root}
	for _, name := range []string{"HEAD", "packed-refs", "refs/stash"} {
		if info, err := root.Lstat(name); err == nil {
			l.note(name, info)
		}
	}
	l.dir("refs/heads", 0)
	l.dir("refs/tags", 0)
	return l.String()
}

// looker walks the refs inside.
type looker struct {
	strings.Builder
	root *os.Root
	each func(*os.File) // called for each directory, unless nil
	n    int
}

func (l *looker) note(name string, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		fmt.Fprintf(l, "%q %d %d %d\n", name, st.Ino, st.Size, changed(st))
	}
}

// dir walks a directory. What was one a moment ago may be a pipe now, which must not be
// waited for.
func (l *looker) dir(path string, deep int) {
	f, err := openDir(l.root, path)
	if err != nil {
		return
	}
	defer f.Close()
	if l.each != nil {
		l.each(f)
	}
	list, err := f.ReadDir(max(maxLook-l.n, 0) + 1)
	if err != nil {
		return // empty
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, d := range list {
		if l.n++; l.n > maxLook {
			return
		}
		at := path + "/" + d.Name()
		if info, err := l.root.Lstat(at); err == nil {
			l.note(at, info)
		}
		if d.IsDir() && deep < maxDeep {
			l.dir(at, deep+1)
		}
	}
}

func openDir(root *os.Root, path string) (*os.File, error) {
	return root.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}

// read reads a file: a regular one, of limited size; "" for anything else.
func (p private) read(name string, limit int64) string {
	root, err := os.OpenRoot(string(p))
	if err != nil {
		return ""
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	return string(text)
}

// has reports whether there is something of a name.
func (p private) has(name string) bool {
	root, err := os.OpenRoot(string(p))
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// head is the commit that is checked out and its branch; "" for what is not understood.
func (p private) head() (commit, branch string) {
	head := p.read("HEAD", 4096)
	ref, ok := strings.CutPrefix(head, "ref: refs/heads/")
	if !ok {
		return validCommit(head), ""
	}
	ref = strings.TrimSpace(ref)
	if !ValidRef("refs/heads/" + ref) {
		return "", ""
	}
	if id := validCommit(p.read("refs/heads/"+ref, 4096)); id != "" {
		return id, ref
	}
	for line := range strings.Lines(p.read("packed-refs", maxPackedRefs)) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == "refs/heads/"+ref {
			return validCommit(id), ref
		}
	}
	return "", ref
}

// validCommit is a word if it is the name of an object, or "".
func validCommit(s string) string {
	if s = strings.TrimSpace(s); !isID(s) {
		return ""
	}
	return s
}

func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// hasStash reports whether there is a stash.
func (p private) hasStash() bool {
	return p.has("refs/stash") || strings.Contains(p.read("packed-refs", maxPackedRefs), " refs/stash\n")
}

// tags are the tags that git inside has not packed: those it began with are. More than are
// looked at are cut.
func (p private) tags() (tags map[string]string, cut bool) {
	tags = map[string]string{}
	root, err := os.OpenRoot(string(p))
	if err != nil {
		return tags, false
	}
	defer root.Close()
	seen := 0
	_ = fs.WalkDir(root.FS(), "refs/tags", func(at string, d fs.DirEntry, err error) error {
		if seen++; seen > maxLook {
			return fs.SkipAll
		}
		name, ok := strings.CutPrefix(at, "refs/tags/")
		if err != nil || !ok || !d.Type().IsRegular() || len(name) > 80 || !ValidRef(at) {
			return nil
		}
		if id := validCommit(p.read(at, 100)); id != "" {
			tags[name] = id
		}
		return nil
	})
	return tags, seen > maxLook
}

// mayHaveHook reports whether git inside may run a hook. Where a setting may name another
// directory, only git inside knows.
func (p private) mayHaveHook(hook string) bool {
	elsewhere, read := false, false
	config := p.read("config", maxPrivateConfig)
	rootfs.ReadGitConfig(strings.NewReader(config), func(key, _ string) {
		read = true
		elsewhere = elsewhere || key == "core.hookspath" || strings.HasPrefix(key, "include") || strings.HasPrefix(key, "extensions.worktreeconfig")
	})
	return !read || elsewhere || p.has("hooks/"+hook)
}

// unlock removes the locks of gits that were killed with their sandbox, which would stop
// every git after them. Nothing may run inside.
func (p private) unlock() {
	root, err := os.OpenRoot(string(p))
	if err != nil {
		return // not there yet
	}
	defer root.Close()
	seen := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		seen++
		top, _, _ := strings.Cut(path.Clean(name), "/")
		switch {
		case seen > maxLocks:
			return fs.SkipAll
		case err != nil:
			return nil
		case d.IsDir() && top != "." && top != "refs" && top != "worktrees": // where git makes none that last
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(name, ".lock"):
			if err := root.Remove(name); errors.Is(err, fs.ErrPermission) {
				return fs.SkipDir
			}
		}
		return nil
	})
}

// exclude adds lines to info/exclude, each once. If that is not a file, it stays as it is.
func (p private) exclude(lines []string) error {
	root, err := os.OpenRoot(string(p))
	if err != nil {
		return err
	}
	defer root.Close()
	_ = root.Mkdir("info", 0o755)
	f, err := root.OpenFile("info/exclude", os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxExcludes {
		return errors.Join(err, errors.New("info/exclude is not a small file"))
	}
	old, err := io.ReadAll(io.LimitReader(f, maxExcludes))
	if err != nil {
		return err
	}
	var add bytes.Buffer
	if len(old) > 0 && old[len(old)-1] != '\n' {
		add.WriteByte('\n')
	}
	known := "\n" + string(old) + "\n"
	for _, line := range lines {
		if !strings.Contains(known, "\n"+line+"\n") {
			add.WriteString(line + "\n")
		}
	}
	_, err = f.Write(add.Bytes())
	return err
}
