package checkpoint

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/safepath"
)

// Bounds on what is read of a tree.
const (
	maxEntries  = 1_000_000
	maxDepth    = 256
	maxRules    = 1 << 20 // bytes of one .gitignore
	namesAtOnce = 4096
)

// ErrTooMany says that a tree has more in it than is read.
var ErrTooMany = errors.New("too many files")

// The modes that git knows.
const (
	Regular    = 0o100644
	Executable = 0o100755
	Symlink    = 0o120000
	Gitlink    = 0o160000 // a submodule
)

// A Stat is what the kernel knows of a file. The time of its last change of any kind
// cannot be set by a program.
type Stat struct {
	Inode          uint64
	Size           int64
	Mtime, Changed int64
	Mode           uint32 // the kernel's
}

// An Entry is a file or a link that was found.
type Entry struct {
	Path string // relative, separated by slashes, in the raw bytes of the file system
	Mode uint32 // git's
	Stat Stat
}

// A Walk says what of a tree to visit.
type Walk struct {
	// Ignore has the rules that are not in the tree itself. Nil visits everything.
	Ignore *Ignore
	// Known says which paths are not ignored whatever the rules say; see [Known].
	Known func(path string) bool
	// Visit is called for every file and link.
	Visit func(d *Dir, name string, e Entry) error
	// Enter is called for every directory that is gone into.
	Enter func(d *Dir) error
	// Odd is called for what is neither visited nor gone into: git directories, devices,
	// pipes, sockets, and what cannot be read.
	Odd func(path, what string)
	// Max bounds how many names are looked at. Zero is a million.
	Max int
}

// Do walks the tree below a directory, whose own path is ours and is believed.
func (w Walk) Do(ctx context.Context, root string) error {
	top, err := OpenDir(root)
	if err != nil {
		return err
	}
	defer top.Close()
	return w.In(ctx, top)
}

// In walks the tree below an open directory.
func (w Walk) In(ctx context.Context, top *Dir) error {
	if w.Max == 0 {
		w.Max = maxEntries
	}
	s := &walker{Walk: w, ctx: ctx}
	return s.directory(&Dir{file: top.file}, w.Ignore, 0)
}

type walker struct {
	Walk
	ctx  context.Context
	seen int
}

func (w *walker) odd(path, what string) {
	if w.Odd != nil {
		w.Odd(path, what)
	}
}

func (w *walker) directory(d *Dir, rules *Ignore, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.Enter != nil {
		if err := w.Enter(d); err != nil {
			return err
		}
	}
	names, err := w.names(d)
	if err != nil {
		return err
	}
	if rules != nil && slices.Contains(names, ".gitignore") {
		rules = rules.Below(d.Path, d.text(".gitignore", maxRules))
	}
	slices.Sort(names)
	for _, name := range names {
		// One directory may have them all, and each may be long to read.
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(d, name, rules, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) names(d *Dir) ([]string, error) {
	// Another descriptor: to list moves it.
	f, err := safepath.Open(d.file, ".", dirFlags, safepath.NoLinks)
	if err != nil {
		w.odd(d.Path, "unreadable")
		return nil, nil
	}
	defer f.Close()
	var all []string
	for {
		names, err := f.Readdirnames(namesAtOnce)
		all = append(all, names...)
		if w.seen += len(names); w.seen > w.Max {
			return nil, ErrTooMany
		}
		if err == io.EOF || len(names) == 0 {
			return all, nil
		}
		if err != nil {
			w.odd(d.Path, "unreadable")
			return all, nil
		}
	}
}

func (w *walker) entry(d *Dir, name string, rules *Ignore, depth int) error {
	rel := path.Join(d.Path, name)
	if changes.IsGit(name) {
		if rel != ".git" { // the top's is coffer's
			w.odd(rel, "git")
		}
		return nil
	}
	st, err := d.stat(name)
	if err != nil {
		return nil // gone
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if rules != nil && rules.Match(rel, isDir) {
		if w.Known == nil || !w.Known(rel) {
			return nil
		}
		if isDir {
			rules = everything
		}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		mode := uint32(Regular)
		if st.Mode&0o100 != 0 {
			mode = Executable
		}
		return w.Visit(d, name, Entry{Path: rel, Mode: mode, Stat: st})
	case unix.S_IFLNK:
		return w.Visit(d, name, Entry{Path: rel, Mode: Symlink, Stat: st})
	case unix.S_IFDIR:
		if depth >= maxDepth || len(rel) > unix.PathMax {
			w.odd(rel, "too deep")
			return nil
		}
		f, err := safepath.Open(d.file, name, dirFlags, safepath.NoLinks)
		if err != nil {
			w.odd(rel, "unreadable")
			return nil
		}
		defer f.Close()
		return w.directory(&Dir{Path: rel, file: f}, rules, depth+1)
	case unix.S_IFIFO:
		w.odd(rel, "fifo")
	case unix.S_IFSOCK:
		w.odd(rel, "socket")
	default:
		w.odd(rel, "device")
	}
	return nil
}
