package mask

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Scan looks through the tree. It is for the start of a sandbox: as it takes most of its
// time in the kernel, several go through a large tree together.
func (t *Tree) Scan(ctx context.Context) (*Result, error) {
	w := &walk{t: t, ctx: ctx, queue: []string{""}}
	if err := w.run(); err != nil {
		return nil, err
	}
	if err := w.links(); err != nil {
		return nil, err
	}
	byPath := func(a, b Found) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(w.hidden, byPath)
	w.hidden = slices.CompactFunc(w.hidden, func(a, b Found) bool { return a.Path == b.Path })
	slices.Sort(w.Rules)
	slices.SortFunc(w.Repositories, byPath)
	w.Hidden = w.hidden
	return &w.Result, nil
}

// walk is a look through a tree.
type walk struct {
	Result
	t   *Tree
	ctx context.Context

	mu      sync.Mutex
	queue   []string
	idle    sync.Cond
	busy    int
	workers int
	all     sync.WaitGroup
	err     error
	entries int
	effort  effort
	hidden  []Found
	linked  linked          // hidden files that have other names
	bare    bool            // only look for repositories
	inodes  linked          // if set, only look for these
	led     map[string]bool // directories that links have led to
}

// many is a queue that is worth another pair of hands.
const many = 64

func (w *walk) run() error {
	w.idle.L = &w.mu
	w.workers = 1
	w.work()
	w.all.Wait()
	return w.err
}

// work takes directories until there are none and nobody can find more.
func (w *walk) work() {
	buf := make([]byte, 0, 32<<10)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && w.busy > 0 && w.err == nil {
			w.idle.Wait()
		}
		if len(w.queue) == 0 || w.err != nil {
			w.idle.Broadcast()
			return
		}
		dir := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		w.busy++
		w.mu.Unlock()
		got, err := w.look(dir, &buf)
		w.mu.Lock()
		w.busy--
		w.take(dir, got, err)
	}
}

// take notes what a directory had.
func (w *walk) take(dir string, got seen, err error) {
	w.entries += got.entries
	w.effort.add(got.effort)
	w.hidden = append(w.hidden, got.hidden...)
	w.Repositories = append(w.Repositories, got.repositories...)
	w.queue = append(w.queue, got.dirs...)
	for _, to := range got.led {
		if !w.led[to] {
			if w.led == nil {
				w.led = map[string]bool{}
			}
			w.led[to] = true
			w.queue = append(w.queue, to)
		}
	}
	for _, f := range got.linked {
		if w.linked == nil {
			w.linked = linked{}
		}
		w.linked.add(f)
	}
	if got.rules {
		w.Rules = append(w.Rules, dir)
	}
	switch {
	case err != nil:
	case w.entries > maxEntries:
		err = &CrowdError{w.t.Root}
	case w.effort.exceeds(w.entries):
		err = w.effort.excess(w.t.Root)
	case len(w.hidden) > MaxHidden:
		err = &FullError{Root: w.t.Root, Most: most(w.hidden)}
	default:
		err = w.ctx.Err()
	}
	if err != nil && w.err == nil {
		w.err = err
	}
	if len(w.queue) > many && w.workers < min(runtime.GOMAXPROCS(0), 4) {
		w.workers++
		w.all.Go(w.work)
	}
	w.idle.Broadcast()
}

// seen is what one directory has in it.
type seen struct {
	entries int
	effort  effort
	dirs    []string
	led     []string // where links lead to, if that is not looked into otherwise
	hidden  []Found
	linked  []Found
	rules   bool

	repositories []Found
}

// entry is a line of a directory. Its name is in the buffer that the kernel has filled.
type entry struct {
	name string
	ino  uint64
	kind byte
}

// known sees to it that it is known what an entry is: some file systems do not say. It may be gone.
func (e *entry) known(dir int) bool {
	if e.kind != unix.DT_UNKNOWN {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	e.kind = byte(st.Mode & unix.S_IFMT >> 12)
	return err == nil
}

// maxDeep is the longest path that is looked at. The kernel takes none of more than 4096
// bytes, and the tree has a path of its own, outside and inside.
const maxDeep = 2048

// tooDeep is the rule for directories further down than that.
var tooDeep = Rule{Text: "a directory too far down to be looked into", From: Builtin}

// look reads one directory.
func (w *walk) look(dir string, buf *[]byte) (got seen, err error) {
	fd, err := w.t.open(dir, unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	switch {
	case err == unix.EACCES && dir != "":
		if st, err := w.t.stat(dir); err == nil && int(st.Uid) == os.Getuid() {
			got.hidden = []Found{found(&unreadable, dir, true)}
		}
		return got, nil
	case (err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.EACCES) && dir != "":
		return got, nil // it was replaced meanwhile
	case err != nil:
		return got, fmt.Errorf("look for files to hide: open %s/%s: %w", w.t.Root, dir, err)
	}
	defer unix.Close(fd)
	if err := readDir(fd, buf); err != nil {
		return got, fmt.Errorf("look for files to hide: list %s/%s: %w", w.t.Root, dir, err)
	}
	rules := false
	for e := range entries(*buf) {
		got.entries++
		rules = rules || e.name == FileName && e.kind == unix.DT_REG
	}
	if rules && w.inodes == nil && !w.bare {
		if _, err := w.t.readRules(dir); err != nil {
			return got, err
		}
		got.rules = true
	}
	in := w.t.Set.In(dir)
	in.effort = &got.effort
	for e := range entries(*buf) {
		w.entry(&got, in, dir, fd, e)
		if got.effort.exceeds(got.entries) {
			break // and take says so
		}
	}
	return got, nil
}

// readDir reads all lines of a directory, as the kernel writes them.
func readDir(fd int, buf *[]byte) error {
	*buf = (*buf)[:0]
	for {
		if cap(*buf)-len(*buf) < 8<<10 {
			*buf = slices.Grow(*buf, 64<<10)
		}
		n, err := unix.Getdents(fd, (*buf)[len(*buf):cap(*buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != unix.ENOENT {
			return err
		}
		if n <= 0 {
			return nil
		}
		*buf = (*buf)[:len(*buf)+n]
		if len(*buf) > maxListing {
			return errors.New("it has too many entries")
		}
	}
}

// maxListing bounds one directory: some millions of entries.
const maxListing = 128 << 20

// entry decides about one entry.
func (w *walk) entry(got *seen, in Dir, dir string, fd int, e entry) {
	if !e.known(fd) {
		return
	}
	isDir := e.kind == unix.DT_DIR
	switch {
	case w.inodes != nil && !isDir:
		w.sameInode(got, dir, fd, e, w.inodes)
		return
	case e.name == ".git" && w.inodes == nil:
		if w.t.nested(dir) {
			got.repository(dir, fd, e.name)
		}
		if isDir {
			return
		}
	}
	if w.bare && (!isDir || len(dir)+1+len(e.name) > maxDeep) {
		return
	}
	r := &tooDeep
	if !isDir || len(dir)+1+len(e.name) <= maxDeep {
		r = in.Decide(e.name, isDir)
	}
	switch {
	case r != nil && (!r.Looks() || !isDir && w.t.confirms(r, join(dir, e.name))):
		if w.inodes == nil {
			e.name = strings.Clone(e.name)
			w.hide(got, r, join(dir, e.name), fd, e)
		}
	case isDir && (w.inodes != nil || in.Enters(e.name)):
		got.dirs = append(got.dirs, join(dir, strings.Clone(e.name)))
	case isDir:
		got.checkouts(join(dir, e.name), fd, e.name, false)
	case e.kind == unix.DT_LNK:
		if to := w.t.leads(join(dir, e.name)); to != "" {
			got.led = append(got.led, to)
		}
	}
}

func found(r *Rule, path string, dir bool) Found {
	return Found{Path: path, Dir: dir, Rule: r.String(), From: r.From}
}

// hide notes an entry, and what is behind it.
func (w *walk) hide(got *seen, r *Rule, path string, fd int, e entry) {
	f := found(r, path, e.kind == unix.DT_DIR)
	var names uint32
	f.Which, _, names = which(fd, e.name)
	got.hidden = append(got.hidden, f)
	switch e.kind {
	case unix.DT_LNK:
		if to, dir := w.t.behind(path); to != "" {
			f.Path, f.Dir, f.Rule = to, dir, f.Rule+" (behind "+path+")"
			f.Which, _, _ = w.t.which(to)
			got.hidden = append(got.hidden, f)
		}
	case unix.DT_REG:
		if names > 1 {
			got.linked = append(got.linked, f)
		}
	}
}

// entries takes what the kernel lists apart. The names are only good for as long as the
// buffer is.
func entries(b []byte) iter.Seq[entry] {
	const head = 19 // ino, offset, length, type
	return func(yield func(entry) bool) {
		for len(b) > head {
			n := int(binary.NativeEndian.Uint16(b[16:]))
			if n <= head || n > len(b) {
				return
			}
			name := b[head:n]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			e := entry{unsafe.String(unsafe.SliceData(name), len(name)), binary.NativeEndian.Uint64(b), b[18]}
			if e.name != "" && e.name != "." && e.name != ".." && !strings.Contains(e.name, "/") && !yield(e) {
				return
			}
			b = b[n:]
		}
	}
}
