package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/tree"
)

// cached is what a file looked like when it was last read.
type cached struct {
	stat tree.Stat
	item tree.Item
}

// A Seed is what a file of a commit looked like when git wrote it.
type Seed struct {
	Path string
	Stat tree.Stat // of inode and size, the lower 32 bits
	Item tree.Item
}

// racy is how near to now a file's last change may be for the kernel's clock not to tell
// it from the next.
const racy = 20 * time.Millisecond

// notKept stands for a content that is not.
const notKept = "not-kept"

// Seed fills the cache, if there is none, from git's index of the workspace, which git on
// the host wrote.
func (s *Store) Seed(all func() []Seed) {
	if s.cache = s.readCache(); s.cache != nil {
		return
	}
	s.cache = map[string]cached{}
	for _, seed := range all() {
		s.cache[seed.Path] = cached{seed.Stat, seed.Item}
	}
}

// look is one look at the files.
type look struct {
	*Store
	is    tree.Manifest
	seen  map[string]cached
	since int64 // a file that changed later may change again unseen
	fresh int64 // bytes of contents that are new
	left  int
	dirty bool // the cache has to be written
}

// Look reads the files of a workspace, keeping contents that are new.
func (s *Store) Look(ctx context.Context, root string, rules *tree.Ignore) (m tree.Manifest, left int, err error) {
	if s.cache == nil {
		s.Seed(func() []Seed { return nil })
	}
	if err := s.load(); err != nil {
		return nil, 0, err
	}
	l := &look{Store: s, is: make(tree.Manifest, len(s.last)), seen: make(map[string]cached, len(s.cache)), since: time.Now().Add(-racy).UnixNano()}
	s.watch.Begin()
	err = tree.Walk{Ignore: rules, Known: tree.Known(s.base, s.last), Enter: func(d *tree.Dir) error { s.watch.Add(d.FD()); return nil }, Visit: func(d *tree.Dir, name string, e tree.Entry) error {
		return errors.Join(ctx.Err(), l.visit(d, name, e))
	}}.Do(ctx, root)
	if err != nil {
		return nil, 0, err
	}
	for p, item := range s.base {
		if item.Mode == tree.Gitlink {
			l.is[p] = item
		}
	}
	if l.dirty || len(l.seen) != len(s.cache) {
		s.cache = l.seen
		s.writeCache()
	}
	s.same = len(tree.Compare(s.last, l.is)) == 0
	return l.is, l.left, nil
}

// Quiet says whether it is certain that nothing happened to the files since they were
// last looked at, and they were as at the last checkpoint.
func (s *Store) Quiet() bool { return s.same && !s.watch.Happened() }

// Rest gives back what it takes to say so.
func (s *Store) Rest() { s.watch.Close() }

// load finds out what the files were at the last checkpoint.
func (s *Store) load() (err error) {
	if s.last != nil {
		return nil
	}
	s.last = s.base
	if n := len(s.list.All); n > 0 {
		s.last, err = s.Manifest(s.list.All[n-1].N)
	}
	return err
}

func (l *look) visit(d *tree.Dir, name string, e tree.Entry) error {
	if c, ok := l.cache[e.Path]; ok && c.matches(e) && e.Stat.Changed < l.since {
		l.seen[e.Path], l.is[e.Path] = c, c.item
		return nil
	}
	item, err := l.read(d, name, e)
	if err != nil {
		return err
	}
	l.is[e.Path] = item
	if item.ID == notKept {
		l.left++
		return nil
	}
	l.dirty = true
	if e.Stat.Changed < l.since {
		l.seen[e.Path] = cached{e.Stat, item}
	}
	return nil
}

// matches says whether a file looks as it did. What came from git's index has less.
func (c cached) matches(e tree.Entry) bool {
	a, b := c.stat, e.Stat
	if a.Mode == 0 {
		return c.item.Mode == e.Mode && uint32(a.Inode) == uint32(b.Inode) && uint32(a.Size) == uint32(b.Size) && a.Mtime == b.Mtime && a.Changed == b.Changed
	}
	return a == b
}

// read names the content of a file, and keeps it. A failure to read is the file's own; a
// failure to write is not.
func (l *look) read(d *tree.Dir, name string, e tree.Entry) (tree.Item, error) {
	lost := tree.Item{Mode: e.Mode, ID: notKept}
	if e.Mode == tree.Symlink {
		target, err := d.Link(name)
		if err != nil {
			return lost, nil
		}
		id, err := l.keep(strings.NewReader(target), int64(len(target)))
		return tree.Item{Mode: tree.Symlink, ID: id}, err
	}
	f, st, err := d.Open(name)
	if err != nil {
		return lost, nil
	}
	defer f.Close()
	if st.Size > maxFile || l.fresh+st.Size > maxNew {
		return lost, nil
	}
	l.fresh += st.Size
	id, err := l.keep(f, st.Size)
	if errors.Is(err, tree.ErrBusy) {
		return lost, nil
	}
	return tree.Item{Mode: e.Mode, ID: id}, err
}

// Take makes a checkpoint, if something is different from the last one: the files, or the
// commit that is checked out. It returns nil if nothing is.
func (s *Store) Take(ctx context.Context, root string, rules *tree.Ignore, about Checkpoint) (*Checkpoint, error) {
	is, left, err := s.Look(ctx, root, rules)
	if err != nil {
		return nil, fmt.Errorf("look at the workspace: %w", err)
	}
	changed := tree.Compare(s.last, is)
	if n := len(s.list.All); n > 0 && len(changed) == 0 && s.list.All[n-1].Head == about.Head && s.list.All[n-1].Branch == about.Branch {
		return nil, nil
	}
	about.Files, about.Left = len(changed), left
	c, err := s.Add(about, is)
	return &c, err
}

// Start notes how the workspace began, if there is no checkpoint yet.
func (s *Store) Start(head, branch string) error {
	if len(s.list.All) > 0 {
		return nil
	}
	_, err := s.Add(Checkpoint{Command: "(start)", Head: head, Branch: branch}, s.base)
	return err
}

// The cache is a line for every file, ended by a zero. It is ours alone, and what cannot
// be read of it is read from the files.

func (s *Store) writeCache() {
	b := make([]byte, 0, 128*len(s.cache))
	for p, c := range s.cache {
		for _, n := range []int64{int64(c.stat.Inode), c.stat.Size, c.stat.Mtime, c.stat.Changed, int64(c.stat.Mode), int64(c.item.Mode)} {
			b = append(strconv.AppendInt(b, n, 10), ' ')
		}
		b = append(append(append(append(b, c.item.ID...), ' '), p...), 0)
	}
	_ = s.write("cache", b)
}

func (s *Store) readCache() map[string]cached {
	b, err := os.ReadFile(filepath.Join(s.dir, "cache"))
	if err != nil {
		return nil
	}
	all := make(map[string]cached, len(b)/128)
	for line := range strings.SplitSeq(string(b), "\x00") {
		f := strings.SplitN(line, " ", 8)
		if len(f) != 8 {
			continue
		}
		var n [6]int64
		ok := validID(f[6])
		for i := range n {
			v, err := strconv.ParseInt(f[i], 10, 64)
			n[i], ok = v, ok && err == nil
		}
		if ok {
			all[f[7]] = cached{tree.Stat{Inode: uint64(n[0]), Size: n[1], Mtime: n[2], Changed: n[3], Mode: uint32(n[4])}, tree.Item{Mode: uint32(n[5]), ID: f[6]}}
		}
	}
	return all
}
