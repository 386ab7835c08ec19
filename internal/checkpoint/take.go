package checkpoint

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A file is what is known of a path.
type file struct {
	stat Stat   // when it was last read; zero to read it again
	item Item   // what it was then; zero if it was not there
	last Item   // what it was at the last checkpoint; zero if it was not there
	look uint32 // when it was last seen
}

// racy is how soon after a change another one may have the same time by the kernel's clock.
const racy = 20 * time.Millisecond

// notKept stands for a content that is not kept.
const notKept = "not-kept"

// load reads the last checkpoint and the cache.
func (s *Store) load(ctx context.Context) (err error) {
	if s.files != nil {
		return nil
	}
	s.delta = Manifest{}
	if n := len(s.list.All); n > 0 {
		if s.delta, err = s.readDelta(s.list.All[n-1].N); err != nil {
			return err
		}
	}
	s.files, s.dirs = make(map[string]*file, len(s.base)), map[string]bool{}
	for p, item := range s.base {
		s.files[p] = &file{last: item}
		s.known(p)
	}
	for p, item := range s.delta {
		s.files[p] = &file{last: item}
		s.known(p)
	}
	for _, e := range s.readCache(ctx) {
		f := s.files[e.Path]
		if f == nil {
			continue // it was there once
		}
		f.stat, f.item = e.Stat, e.Item
	}
	return nil
}

// known records the directories of a path.
func (s *Store) known(p string) {
	for p = path.Dir(p); p != "." && !s.dirs[p]; p = path.Dir(p) {
		s.dirs[p] = true
	}
}

// look is one look at the files.
type look struct {
	*Store
	workspace *Workspace
	since     int64 // a file that changed later may change again unseen
	fresh     int64 // bytes of contents that are new
	left      int
	changed   []string // paths that are not as at the last checkpoint
}

// Look reads the files of a workspace and keeps new contents. It returns how many differ from the last
// checkpoint, and how many are not kept.
func (s *Store) Look(ctx context.Context, w *Workspace) (changed, left int, err error) {
	l, err := s.lookAt(ctx, w)
	if err != nil {
		return 0, 0, err
	}
	return len(l.changed), l.left, nil
}

func (s *Store) lookAt(ctx context.Context, w *Workspace) (*look, error) {
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.look++
	s.same = false
	l := &look{Store: s, workspace: w, since: time.Now().Add(-racy).UnixNano()}
	s.watch.Begin()
	err := Walk{
		Ignore: w.Ignore,
		Known:  func(p string) bool { return s.dirs[p] || s.files[p] != nil },
		Enter:  func(d *Dir) error { s.watch.Add(d.FD()); return ctx.Err() },
		Visit:  l.visit,
	}.In(ctx, w.Top)
	if err != nil {
		return nil, fmt.Errorf("look at the workspace: %w", err)
	}
	for p, f := range s.files {
		switch {
		case f.look == s.look:
		case f.last.Mode == Gitlink, w.hides(p):
			f.item = f.last // which commit it is, is not among the files; nor is what is hidden
		case f.last.Mode == 0:
			delete(s.files, p)
		default:
			f.item, f.stat = Item{}, Stat{}
			l.changed = append(l.changed, p)
		}
	}
	s.same = len(l.changed) == 0
	if s.stale > 2000 {
		s.writeCache()
	}
	return l, nil
}

func (l *look) visit(d *Dir, name string, e Entry) error {
	f := l.files[e.Path]
	known := f != nil && f.matches(e)
	if !known && l.workspace.hides(e.Path) {
		return nil
	}
	if f == nil {
		f = &file{}
		l.files[e.Path] = f
		l.known(e.Path)
	}
	f.look = l.Store.look
	if !known {
		item, err := l.read(d, name, e)
		if err != nil {
			return err
		}
		f.item, f.stat = item, Stat{}
		if e.Stat.Changed < l.since && item.ID != notKept {
			f.stat = e.Stat
		}
		l.stale++
	}
	if f.item.ID == notKept {
		l.left++
	}
	if f.item != f.last {
		l.changed = append(l.changed, e.Path)
	}
	return nil
}

// matches says whether a file looks as it did. A seed from git's index has less to compare.
func (f *file) matches(e Entry) bool {
	a, b := f.stat, e.Stat
	if a.Mode == 0 {
		return a.Inode != 0 && f.item.Mode == e.Mode && uint32(a.Inode) == uint32(b.Inode) && uint32(a.Size) == uint32(b.Size) && a.Mtime == b.Mtime && a.Changed == b.Changed
	}
	return a == b
}

// read names the content of a file, and keeps it. A file that cannot be read is not kept; a failure to
// write is an error.
func (l *look) read(d *Dir, name string, e Entry) (Item, error) {
	lost := Item{Mode: e.Mode, ID: notKept}
	if e.Mode == Symlink {
		target, err := d.Link(name)
		if err != nil {
			return lost, nil
		}
		id, err := l.keep(strings.NewReader(target), int64(len(target)))
		return Item{Mode: Symlink, ID: id}, err
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
	if errors.Is(err, ErrBusy) {
		return lost, nil
	}
	return Item{Mode: e.Mode, ID: id}, err
}

// Current are the files at the last look.
func (s *Store) Current() Manifest {
	m := make(Manifest, len(s.files))
	for p, f := range s.files {
		if f.item.Mode != 0 {
			m[p] = f.item
		}
	}
	return m
}

// Take makes a checkpoint if the files, or the commit that is checked out, differ from the last one,
// or in any case. Otherwise it returns nil.
func (s *Store) Take(ctx context.Context, w *Workspace, about Checkpoint, always bool) (*Checkpoint, error) {
	l, err := s.lookAt(ctx, w)
	if err != nil {
		return nil, err
	}
	if n := len(s.list.All); !always && n > 0 && len(l.changed) == 0 && s.list.All[n-1].Head == about.Head && s.list.All[n-1].Branch == about.Branch {
		return nil, nil
	}
	about.Files, about.Left = len(l.changed), l.left
	for _, p := range l.changed {
		f := s.files[p]
		if f.last = f.item; f.item == s.base[p] {
			delete(s.delta, p)
		} else {
			s.delta[p] = f.item
		}
		if f.item.Mode == 0 {
			delete(s.files, p)
		}
	}
	c, err := s.add(about, s.delta)
	if err != nil {
		s.files = nil // what is on the disk counts
		return nil, err
	}
	s.same = true
	return &c, nil
}

// Start records how the workspace began, if there is no checkpoint yet. n is its number.
func (s *Store) Start(n int, head, branch string) error {
	if len(s.list.All) > 0 {
		return nil
	}
	_, err := s.add(Checkpoint{N: n, Command: "(start)", Head: head, Branch: branch}, nil)
	return err
}

// Quiet says whether nothing can have changed since the last look, at which the files were as at the
// last checkpoint.
func (s *Store) Quiet() bool { return s.same && !s.watch.Happened() }

// Rest closes the watch, and writes the cache.
func (s *Store) Rest() {
	s.watch.Close()
	if s.stale > 0 {
		s.writeCache()
	}
}

// The cache is ours alone, and what it does not have, or has as it no longer is, is read from the
// files. It is gob and not JSON, in which the paths, whose bytes a stranger chose, do not fit.

// A Seed is what a file looked like when it was last read.
type Seed struct {
	Path string
	Stat Stat // without a mode, what git's index has: of inode and size, the lower 32 bits
	Item Item
}

// Seed says how to fill the cache if there is none: from git's index of the workspace,
// which git on the host wrote.
func (s *Store) Seed(all func(context.Context) []Seed) { s.seed = all }

func (s *Store) writeCache() {
	all := make([]Seed, 0, len(s.files))
	for p, f := range s.files {
		if f.stat != (Stat{}) && f.item.Mode != 0 {
			all = append(all, Seed{p, f.stat, f.item})
		}
	}
	var b bytes.Buffer
	if gob.NewEncoder(&b).Encode(all) == nil && s.write("cache", b.Bytes()) == nil {
		s.stale = 0
	}
}

func (s *Store) readCache(ctx context.Context) (all []Seed) {
	b, err := os.ReadFile(filepath.Join(s.dir, "cache"))
	if err == nil && gob.NewDecoder(bytes.NewReader(b)).Decode(&all) == nil {
		return all
	}
	if s.seed != nil {
		return s.seed(ctx)
	}
	return nil
}
