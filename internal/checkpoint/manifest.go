package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/changes"
)

// An Item is git's mode and git's name of a content. The zero Item is nothing.
type Item struct {
	Mode uint32
	ID   string
}

// A Manifest is a tree without contents.
type Manifest map[string]Item

// Known are the paths of manifests and all directories above them.
func Known(all ...Manifest) map[string]bool {
	known := map[string]bool{}
	for _, m := range all {
		for p := range m {
			for ; p != "." && !known[p]; p = path.Dir(p) {
				known[p] = true
			}
		}
	}
	return known
}

// A Delta is a path that changed.
type Delta struct {
	Path     string
	Old, New Item
}

// NewHash is the hash by which git names objects: sha1 or sha256.
func NewHash(format string) hash.Hash {
	if format == "sha256" {
		return sha256.New()
	}
	return sha1.New()
}

// ErrBusy is for a file that changed while it was read.
var ErrBusy = errors.New("changed while it was read")

// Name names a content, of exactly size bytes.
func Name(format string, r io.Reader, size int64, also io.Writer) (string, error) {
	h := NewHash(format)
	fmt.Fprintf(h, "blob %d\x00", size)
	var w io.Writer = h
	if also != nil {
		w = io.MultiWriter(h, also)
	}
	n, err := io.Copy(w, io.LimitReader(r, size))
	if err == nil && n < size {
		err = ErrBusy
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// Options are about one comparison.
type Options struct {
	Format string  // of names
	Ignore *Ignore // nil to look at all there is
	// Known are files that count though they are ignored.
	Known map[string]bool
	// Blob reads what a file was; nil if that cannot be had.
	Blob func(id string, limit int64) (text []byte, size int64, err error)
	// Odd hears of what is no file.
	Odd func(path, what string)
}

// ReadTree lists the files below a directory, with the names of their contents.
func ReadTree(ctx context.Context, root string, o Options) (Manifest, error) {
	is := Manifest{}
	err := Walk{Ignore: o.Ignore, Known: func(p string) bool { return o.Known[p] }, Odd: o.Odd, Visit: func(d *Dir, name string, e Entry) error {
		item, err := identify(d, name, e, o.Format)
		if err != nil {
			if o.Odd != nil {
				o.Odd(e.Path, "unreadable")
			}
			// It is there: what it is cannot be said, but that it was not removed.
			item = Item{Mode: e.Mode, ID: "unreadable"}
		}
		is[e.Path] = item
		return nil
	}}.Do(ctx, root)
	return is, err
}

func identify(d *Dir, name string, e Entry, format string) (Item, error) {
	if e.Mode == Symlink {
		target, err := d.Link(name)
		if err != nil {
			return Item{}, err
		}
		id, err := Name(format, strings.NewReader(target), int64(len(target)), nil)
		return Item{Symlink, id}, err
	}
	f, st, err := d.Open(name)
	if err != nil {
		return Item{}, err
	}
	defer f.Close()
	id, err := Name(format, f, st.Size, nil)
	return Item{e.Mode, id}, err
}

// Compare says what is different between two manifests.
func Compare(was, is Manifest) []Delta {
	var all []Delta
	for p, now := range is {
		if old := was[p]; old != now {
			all = append(all, Delta{p, old, now})
		}
	}
	for p, old := range was {
		if _, ok := is[p]; !ok {
			all = append(all, Delta{Path: p, Old: old})
		}
	}
	slices.SortFunc(all, func(a, b Delta) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Since compares a directory with a manifest. Submodules are left out: their files are another
// repository's.
func Since(ctx context.Context, root string, was Manifest, o Options) ([]Delta, error) {
	is, err := ReadTree(ctx, root, o)
	if err != nil {
		return nil, err
	}
	var links []string
	for p, item := range was {
		if item.Mode == Gitlink {
			links = append(links, p+"/")
			is[p] = item
		}
	}
	all := Compare(was, is)
	return slices.DeleteFunc(all, func(d Delta) bool {
		if slices.ContainsFunc(links, func(l string) bool { return strings.HasPrefix(d.Path, l) }) {
			return true
		}
		return d.Old.Mode == d.New.Mode && d.Old.Mode != Symlink && o.Blob != nil && o.converted(root, d)
	}), nil
}

// Side reads what a file of the tree is now.
func Side(root string, d Delta, limit int64) changes.Side {
	s := changes.Side{Mode: d.New.Mode}
	if d.New.Mode == 0 {
		return s
	}
	if d.New.Mode == Symlink {
		dir, name, err := Find(root, d.Path)
		if err == nil {
			defer dir.Close()
			var target string
			target, err = dir.Link(name)
			s.Text, s.Size = []byte(target), int64(len(target))
		}
		s.Huge, s.Unread = err != nil, err != nil
		return s
	}
	f, st, err := openFile(root, d.Path)
	if err != nil {
		s.Huge, s.Unread = true, true
		return s
	}
	defer f.Close()
	s.Size = st.Size
	if s.Huge = st.Size > limit; !s.Huge {
		s.Text, err = io.ReadAll(io.LimitReader(f, limit))
		s.Huge, s.Unread = err != nil, err != nil
	}
	return s
}

func openFile(root, rel string) (*os.File, Stat, error) {
	dir, name, err := Find(root, rel)
	if err != nil {
		return nil, Stat{}, err
	}
	defer dir.Close()
	return dir.Open(name)
}

const maxConverted = 8 << 20

// converted says whether a file differs from what was committed only by git's conversion: line ends,
// or a large file that is kept elsewhere (LFS) and named by its hash.
func (o Options) converted(root string, d Delta) bool {
	old, size, err := o.Blob(d.Old.ID, maxConverted)
	if err != nil || size > maxConverted {
		return false
	}
	if sum, length, ok := pointer(old); ok {
		return holds(root, d.Path, sum, length)
	}
	if bytes.IndexByte(old, '\r') >= 0 || changes.IsBinary(old) {
		return false
	}
	now := Side(root, d, maxConverted)
	return !now.Huge && bytes.Equal(bytes.ReplaceAll(now.Text, []byte("\r\n"), []byte("\n")), old)
}

func pointer(b []byte) (sum string, size int64, ok bool) {
	if len(b) > 1024 || !bytes.HasPrefix(b, []byte("version https://git-lfs.github.com/spec/")) {
		return "", 0, false
	}
	for line := range strings.Lines(string(b)) {
		if s, found := strings.CutPrefix(strings.TrimSpace(line), "oid sha256:"); found {
			sum = s
		}
		fmt.Sscanf(line, "size %d", &size)
	}
	return sum, size, len(sum) == 64
}

func holds(root, rel, sum string, size int64) bool {
	f, st, err := openFile(root, rel)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(f, size))
	return err == nil && st.Size == size && hex.EncodeToString(h.Sum(nil)) == sum
}
