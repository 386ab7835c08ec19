package mask

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

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
	slices.SortFunc(w.hidden, func(a, b Found) int { return cmp.Compare(a.Path, b.Path) })
	w.hidden = slices.CompactFunc(w.hidden, func(a, b Found) bool { return a.Path == b.Path })
	slices.Sort(w.Rules)
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
	hidden  []Found
	linked  map[uint64]Found // inodes of hidden files that have other names
	keep    bool             // the directories
	inodes  map[uint64]Found // if set, only look for these
	led     map[string]bool  // directories that links have led to
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
	buf := make([]byte, 32<<10)
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
		got, err := w.look(dir, buf)
		w.mu.Lock()
		w.busy--
		w.take(dir, got, err)
	}
}

// take notes what a directory had.
func (w *walk) take(dir string, got seen, err error) {
	w.entries += got.entries
	w.hidden = append(w.hidden, got.hidden...)
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
	for ino, f := range got.linked {
		if w.linked == nil {
			w.linked = map[uint64]Found{}
		}
		w.linked[ino] = f
	}
	if got.rules {
		w.Rules = append(w.Rules, dir)
	}
	if w.keep {
		w.Dirs = append(w.Dirs, dir)
	}
	switch {
	case err != nil:
	case w.entries > maxEntries:
		err = fmt.Errorf("look for files to hide: there are more than %d in %s", maxEntries, w.t.Root)
	case len(w.hidden) > MaxHidden:
		err = fmt.Errorf("more than %d files of %s match the masks, and each takes a mount: %w", MaxHidden, w.t.Root, ErrTooMany)
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
	dirs    []string
	led     []string // where links lead to, if that is not looked into otherwise
	hidden  []Found
	linked  map[uint64]Found
	rules   bool
}

// entry is a line of a directory.
type entry struct {
	name string
	ino  uint64
	kind byte
}

// look reads one directory.
func (w *walk) look(dir string, buf []byte) (got seen, err error) {
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
	var list []entry
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != unix.ENOENT {
			return got, fmt.Errorf("look for files to hide: list %s/%s: %w", w.t.Root, dir, err)
		}
		if n <= 0 {
			break
		}
		list = entries(list, buf[:n])
		if len(list) > maxEntries {
			break // and take says so
		}
	}
	got.entries = len(list)
	if w.inodes == nil && slices.ContainsFunc(list, func(e entry) bool { return e.name == FileName && e.kind == unix.DT_REG }) {
		if _, err := w.t.readRules(dir); err != nil {
			return got, err
		}
		got.rules = true
	}
	in := w.t.Set.In(dir)
	for _, e := range list {
		w.entry(&got, in, dir, fd, e)
	}
	return got, nil
}

// entry decides about one entry.
func (w *walk) entry(got *seen, in Dir, dir string, fd int, e entry) {
	if e.kind == unix.DT_UNKNOWN { // some file systems do not say
		var st unix.Stat_t
		if unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return
		}
		e.kind = byte(st.Mode & unix.S_IFMT >> 12)
	}
	isDir := e.kind == unix.DT_DIR
	if isDir && e.name == ".git" {
		return
	}
	r := in.Decide(e.name, isDir)
	if w.inodes != nil {
		w.sameInode(got, dir, fd, e, r)
	} else if r != nil && (!r.Looks() || !isDir && w.t.confirms(r, join(dir, e.name))) {
		w.hide(got, r, join(dir, e.name), fd, e)
		return
	}
	switch {
	case isDir && (r == nil || r.Looks()) && in.Enters(e.name):
		got.dirs = append(got.dirs, join(dir, e.name))
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
	var st unix.Statx_t
	if unix.Statx(fd, e.name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_NLINK|unix.STATX_BTIME, &st) != nil {
		st.Ino = e.ino // gone again, or not ours to look at
	}
	f.Which = Which{st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}
	got.hidden = append(got.hidden, f)
	switch e.kind {
	case unix.DT_LNK:
		if to, dir := w.t.behind(path); to != "" {
			f.Path, f.Dir, f.Rule = to, dir, f.Rule+" (behind "+path+")"
			got.hidden = append(got.hidden, f)
		}
	case unix.DT_REG:
		if st.Nlink > 1 {
			if got.linked == nil {
				got.linked = map[uint64]Found{}
			}
			got.linked[st.Ino] = f
		}
	}
}

// links finds the other names of hidden files: who may read a file by one of its names has
// read it.
func (w *walk) links() error {
	if len(w.linked) == 0 {
		return nil
	}
	again := &walk{t: w.t, ctx: w.ctx, queue: []string{""}, inodes: w.linked}
	err := again.run()
	w.hidden = append(w.hidden, again.hidden...)
	if len(w.hidden) > MaxHidden {
		err = errors.Join(err, ErrTooMany)
	}
	return err
}

// sameInode hides an entry that is another name of a hidden file.
func (w *walk) sameInode(got *seen, dir string, fd int, e entry, r *Rule) {
	f, ok := w.inodes[e.ino]
	path := join(dir, e.name)
	if !ok || e.kind != unix.DT_REG || f.Path == path {
		return
	}
	var st unix.Stat_t
	if unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Ino != e.ino {
		return
	}
	got.hidden = append(got.hidden, Found{Path: path, Rule: f.Rule + " (the same file as " + f.Path + ")", From: f.From, Which: f.Which})
}

// entries takes what the kernel lists apart.
func entries(list []entry, b []byte) []entry {
	const head = 19 // ino, offset, length, type
	for len(b) > head {
		n := int(binary.NativeEndian.Uint16(b[16:]))
		if n <= head || n > len(b) {
			break
		}
		name := b[head:n]
		if i := slices.Index(name, 0); i >= 0 {
			name = name[:i]
		}
		if s := string(name); s != "." && s != ".." && !strings.Contains(s, "/") {
			list = append(list, entry{s, binary.NativeEndian.Uint64(b), b[18]})
		}
		b = b[n:]
	}
	return list
}
