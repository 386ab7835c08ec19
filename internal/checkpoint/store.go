package checkpoint

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/safepath"
)

// Bounds. See the package's comment.
const (
	maxKept  = 100
	slack    = 20 // so many more until the old ones are thrown away, all at once
	maxFile  = 64 << 20
	maxNew   = 1 << 30 // of contents in one checkpoint
	maxBytes = 4 << 30
	maxList  = 16 << 20
	maxDelta = 1 << 30
)

// A Checkpoint is a snapshot before or after a turn.
type Checkpoint struct {
	N       int       `json:"n"`
	Time    time.Time `json:"time"`
	Command string    `json:"command"`          // after which it was taken; a stranger's words
	Head    string    `json:"head,omitempty"`   // the commit that was checked out
	Branch  string    `json:"branch,omitempty"` // and its branch, without refs/heads/; none if detached
	Base    string    `json:"base,omitempty"`   // the commit of the user's that the sandbox started from, or followed, where the files are his
	Files   int       `json:"files"`            // how many are different from the one before
	Left    int       `json:"left,omitempty"`   // how many are not kept: too large, or unreadable
	// Included says how many are different in the repositories that the sandbox includes.
	Included map[string]int `json:"included,omitempty"`
}

// Changed is how many files differ from the checkpoint before, in all repositories.
func (c *Checkpoint) Changed() int {
	n := c.Files
	for _, more := range c.Included {
		n += more
	}
	return n
}

type list struct {
	Next      int          `json:"next"`
	Restoring int          `json:"restoring,omitempty"` // the one that is being restored
	Bytes     int64        `json:"bytes"`               // of objects
	Dropped   int          `json:"dropped,omitempty"`   // the oldest that was thrown away
	All       []Checkpoint `json:"checkpoints"`
}

// A Store has the checkpoints of one sandbox. The sandbox's lock sees to one writer.
type Store struct {
	dir    string
	format string
	base   Manifest
	inBase map[string]bool // contents
	list   list

	files map[string]*file // all that are known; nil until they are needed
	dirs  map[string]bool  // the directories that they are in
	delta Manifest         // what of the last checkpoint is different from base
	look  uint32           // counts looks
	seed  func(context.Context) []Seed
	stale int  // how many files the cache on the disk has not seen
	same  bool // at the last look, the files were as at the last checkpoint
	watch mask.DirWatch
}

// Folder is where the checkpoints of the sandbox in a folder are.
func Folder(dir string) string { return filepath.Join(dir, "checkpoints") }

// Exist says whether there are any.
func Exist(dir string) bool {
	_, err := os.Lstat(filepath.Join(Folder(dir), "list.json"))
	return err == nil
}

// Read lists the checkpoints of the sandbox in a folder, and the one whose restoring was interrupted.
func Read(dir string) (all []Checkpoint, restoring int, err error) {
	l, err := readList(Folder(dir))
	return l.All, l.Restoring, err
}

func readList(dir string) (l list, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "list.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return list{Next: 1}, nil
	}
	if err != nil {
		return l, err
	}
	if len(b) > maxList {
		return l, fmt.Errorf("%s is too large", dir)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("the list of checkpoints in %s is damaged: %w", dir, err)
	}
	return l, nil
}

// Open opens the checkpoints of the sandbox in a folder, to write. base are the files of the commit that
// it started from.
func Open(dir, format string, base Manifest) (*Store, error) {
	s := &Store{dir: Folder(dir), format: format, base: base, inBase: make(map[string]bool, len(base))}
	for _, item := range base {
		s.inBase[item.ID] = true
	}
	var err error
	if s.list, err = readList(s.dir); err != nil {
		return nil, err
	}
	if err := makeDir(s.dir); err != nil {
		return nil, err
	}
	return s, makeDir(filepath.Join(s.dir, "objects"))
}

// All are the checkpoints, the oldest first.
func (s *Store) All() []Checkpoint { return slices.Clone(s.list.All) }

// Restoring is the checkpoint that is being restored, or 0.
func (s *Store) Restoring() int { return s.list.Restoring }

// Note records which checkpoint is being restored, 0 for none.
func (s *Store) Note(n int) error {
	s.list.Restoring = n
	return s.save()
}

// Get finds a checkpoint by its number.
func (s *Store) Get(n int) (Checkpoint, bool) {
	i := slices.IndexFunc(s.list.All, func(c Checkpoint) bool { return c.N == n })
	if i < 0 {
		return Checkpoint{}, false
	}
	return s.list.All[i], true
}

// Next is the number of the next checkpoint, and Last that of the last one, or 0.
func (s *Store) Next() int { return s.list.Next }

func (s *Store) Last() int {
	if n := len(s.list.All); n > 0 {
		return s.list.All[n-1].N
	}
	return 0
}

// Then finds the newest checkpoint up to n, or the first: what counted when the store of another
// repository, which gives the numbers, had its checkpoint n.
func (s *Store) Then(n int) (c Checkpoint, ok bool) {
	for _, one := range s.list.All {
		if c.N != 0 && one.N > n {
			break
		}
		c = one
	}
	// What was thrown away may have been between the first one and the next.
	first := len(s.list.All) > 0 && c.N == s.list.All[0].N
	return c, c.N != 0 && !(first && s.list.Dropped > 0 && n >= s.list.Dropped)
}

func (s *Store) save() error {
	b, err := json.MarshalIndent(s.list, "", " ")
	if err != nil {
		return err
	}
	return s.write("list.json", b)
}

func (s *Store) write(name string, b []byte) error {
	return safepath.File{Path: filepath.Join(s.dir, name), Alone: true}.Write(b)
}

// Manifest has all the files of a checkpoint.
func (s *Store) Manifest(n int) (Manifest, error) {
	m := make(Manifest, len(s.base))
	for p, item := range s.base {
		m[p] = item
	}
	delta, err := s.readDelta(n)
	for p, item := range delta {
		if m[p] = item; item.Mode == 0 {
			delete(m, p)
		}
	}
	return m, err
}

// readDelta reads how a checkpoint differs from base.
func (s *Store) readDelta(n int) (Manifest, error) {
	f, err := os.Open(filepath.Join(s.dir, strconv.Itoa(n)))
	if err != nil {
		return nil, fmt.Errorf("read checkpoint %d: %w", n, err)
	}
	defer f.Close()
	z, err := zlib.NewReader(f)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(z, maxDelta))
	}
	delta := Manifest{}
	if err == nil {
		err = parseDelta(delta, string(b))
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint %d is damaged: %w", n, err)
	}
	return delta, nil
}

// parseDelta reads mode, content and path of each file.
func parseDelta(m Manifest, text string) error {
	for line := range strings.SplitSeq(text, "\x00") {
		if line == "" {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			return fmt.Errorf("%q", line)
		}
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			return err
		}
		m[f[2]] = Item{}
		if mode != 0 {
			m[f[2]] = Item{Mode: uint32(mode), ID: f[1]}
		}
	}
	return nil
}

// Changed lists the files that are different between two checkpoints.
func (s *Store) Changed(a, b int) (paths []string, err error) {
	was, err := s.readDelta(a)
	if err != nil {
		return nil, err
	}
	is, err := s.readDelta(b)
	if err != nil {
		return nil, err
	}
	item := func(m Manifest, p string) Item {
		if i, ok := m[p]; ok {
			return i
		}
		return s.base[p]
	}
	for p := range is {
		if is[p] != item(was, p) {
			paths = append(paths, p)
		}
	}
	for p := range was {
		if _, both := is[p]; !both && was[p] != s.base[p] {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

func (s *Store) writeDelta(n int, delta Manifest) error {
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	if err != nil {
		return err
	}
	for p, item := range delta {
		id := item.ID
		if item.Mode == 0 {
			id = "-"
		}
		fmt.Fprintf(z, "%o %s %s\x00", item.Mode, id, p)
	}
	if err := z.Close(); err != nil {
		return err
	}
	return s.write(strconv.Itoa(n), b.Bytes())
}

// Add appends a checkpoint of files whose contents are kept already.
func (s *Store) Add(c Checkpoint, m Manifest) (Checkpoint, error) {
	delta := Manifest{}
	for _, d := range Compare(s.base, m) {
		delta[d.Path] = d.New
	}
	s.files, s.same = nil, false // to be read anew
	return s.add(c, delta)
}

// add appends a checkpoint, with the next number if it has none, or replaces the last one if that has
// its number: its process was killed before it counted.
func (s *Store) add(c Checkpoint, delta Manifest) (Checkpoint, error) {
	if c.N == 0 {
		c.N = s.list.Next
	}
	c.Time = time.Now().UTC().Round(time.Millisecond)
	if len(c.Command) > 500 {
		c.Command = strings.ToValidUTF8(c.Command[:500], "")
	}
	if err := s.writeDelta(c.N, delta); err != nil {
		return c, fmt.Errorf("write checkpoint: %w", err)
	}
	if n := len(s.list.All); n > 0 && s.list.All[n-1].N == c.N {
		s.list.All = s.list.All[:n-1]
	}
	s.list.Next = c.N + 1
	s.list.All = append(s.list.All, c)
	gone := s.prune()
	if err := s.save(); err != nil {
		return c, fmt.Errorf("write checkpoint: %w", err)
	}
	if gone {
		s.sweep()
	}
	return c, nil
}

// prune drops old checkpoints from the list.
func (s *Store) prune() bool {
	n := len(s.list.All)
	drop := 0
	if n > maxKept+slack {
		drop = n - maxKept
	}
	if s.list.Bytes > maxBytes {
		drop = max(drop, n/2)
	}
	if drop = min(drop, n-2); drop <= 0 {
		return false
	}
	if s.list.Dropped == 0 {
		s.list.Dropped = s.list.All[1].N
	}
	s.list.All = slices.Delete(s.list.All, 1, 1+drop)
	return true
}

// sweep removes objects that no checkpoint needs. The next one removes what it cannot.
func (s *Store) sweep() {
	needed, names := map[string]bool{}, map[string]bool{}
	for _, c := range s.list.All {
		names[strconv.Itoa(c.N)] = true
		m, err := s.Manifest(c.N)
		if err != nil {
			return
		}
		for _, item := range m {
			needed[item.ID] = true
		}
	}
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil && !names[e.Name()] {
			os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
	var left int64
	dirs, _ := os.ReadDir(filepath.Join(s.dir, "objects"))
	for _, d := range dirs {
		files, _ := os.ReadDir(filepath.Join(s.dir, "objects", d.Name()))
		for _, f := range files {
			path := filepath.Join(s.dir, "objects", d.Name(), f.Name())
			if !needed[d.Name()+f.Name()] {
				os.Remove(path)
			} else if info, err := f.Info(); err == nil {
				left += info.Size()
			}
		}
	}
	s.list.Bytes = left
	_ = s.save()
}
