package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// A Store is the directory of this user's images. No sandbox can write to it.
type Store struct{ dir string }

// Open returns the store in a directory, which is made by the first pull.
func Open(dir string) *Store { return &Store{dir} }

// An Image is one that is there as a whole.
type Image struct {
	Version int       `json:"version"`
	Digest  v1.Hash   `json:"digest"`
	Env     []string  `json:"env,omitempty"`
	Ignored []string  `json:"ignored,omitempty"` // what its config says and coffer does not do
	Size    int64     `json:"size"`
	Pulled  time.Time `json:"pulled"`
	// Refs are the names that stand for it; they are kept elsewhere.
	Refs []string `json:"-"`

	dir string
}

const (
	infoName  = "image.json"
	refsName  = "refs.json"
	lockName  = ".lock"
	blobsName = ".blobs"
	treeName  = "rootfs"
	newName   = ".new-"
	goneName  = ".gone-"
)

// maxInfo bounds our own files.
const maxInfo = 1 << 20

// ErrNotHere is for an image that has not been pulled.
var ErrNotHere = errors.New("is not on this machine")

// Tree is the directory with the files of an image, which a stranger chose.
func (i *Image) Tree() string { return filepath.Join(i.dir, treeName) }

// Path is the PATH of an image, or the usual one.
func (i *Image) Path() string {
	for _, e := range i.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// Look finds a program by the PATH of the image.
func (i *Image) Look(name string) (string, bool) {
	for _, dir := range filepath.SplitList(i.Path()) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && i.Has(file) {
			return file, true
		}
	}
	return "", false
}

// Get finds an image by its digest.
func (s *Store) Get(d string) (*Image, error) {
	digest, err := parseDigest(d)
	if err != nil {
		return nil, err
	}
	i := &Image{dir: filepath.Join(s.dir, digest.Hex)}
	data, err := safepath.ReadOwn(filepath.Join(i.dir, infoName), maxInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the image %s %w", d, ErrNotHere)
	}
	if err == nil {
		err = json.Unmarshal(data, i)
	}
	if err == nil && (i.Version != 1 || i.Digest != digest) {
		err = errors.New("it is of another coffer, or damaged")
	}
	if err != nil {
		return nil, ui.Hint(fmt.Errorf("read the image %s: %w", d, err), "remove it with 'coffer images rm --force %s', and pull it again", d)
	}
	return i, nil
}

// Find finds an image of a registry that was pulled by this name.
func (s *Store) Find(r Reference) (*Image, error) {
	refs, err := s.refs()
	if err != nil {
		return nil, err
	}
	d, ok := refs[r.String()]
	if !ok {
		return nil, fmt.Errorf("the image %s %w", r, ErrNotHere)
	}
	return s.Get(d)
}

// refs are the names, and the digests that they stand for.
func (s *Store) refs() (map[string]string, error) {
	refs := map[string]string{}
	data, err := safepath.ReadOwn(filepath.Join(s.dir, refsName), maxInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return refs, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &refs)
	}
	if err != nil {
		return nil, fmt.Errorf("read the names of images: %w", err)
	}
	return refs, nil
}

// changeRefs changes refs.json. The caller holds the lock.
func (s *Store) changeRefs(change func(refs map[string]string)) error {
	refs, err := s.refs()
	if err != nil {
		refs = map[string]string{} // they can be pulled again
	}
	before := maps.Clone(refs)
	change(refs)
	if maps.Equal(before, refs) {
		return nil
	}
	data, err := json.MarshalIndent(refs, "", "  ")
	if err != nil {
		return err
	}
	return safepath.File{Path: filepath.Join(s.dir, refsName), Synced: true, Alone: true}.Write(append(data, '\n'))
}

// List lists the images, and what is wrong with those that cannot be read.
func (s *Store) List() (all []*Image, errs []error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{err}
	}
	refs, err := s.refs()
	if err != nil {
		errs = append(errs, err)
	}
	for _, e := range entries {
		d := sha + e.Name()
		if !IsDigest(d) {
			continue
		}
		i, err := s.Get(d)
		if errors.Is(err, ErrNotHere) {
			continue // it is being removed
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(refs)) {
			if refs[name] == d {
				i.Refs = append(i.Refs, name)
			}
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *Image) int {
		return cmp.Or(cmp.Compare(strings.Join(a.Refs, " "), strings.Join(b.Refs, " ")), cmp.Compare(a.Digest.Hex, b.Digest.Hex))
	})
	return all, errs
}

// Remove removes an image that no sandbox uses. waits is called if another process holds the lock.
func (s *Store) Remove(ctx context.Context, d string, waits func()) error {
	digest, err := parseDigest(d)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx, waits)
	if err != nil {
		return err
	}
	defer unlock()
	return s.remove(digest)
}

func (s *Store) remove(d v1.Hash) error {
	if err := s.changeRefs(func(refs map[string]string) {
		maps.DeleteFunc(refs, func(_, to string) bool { return to == d.String() })
	}); err != nil {
		return err
	}
	gone := filepath.Join(s.dir, goneName+d.Hex)
	if err := safepath.RemoveTree(gone); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir, d.Hex), gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the image %s %w", d, ErrNotHere)
		}
		return err
	}
	return safepath.RemoveTree(gone)
}

// Prune removes the images that are not to be kept, and what is left of pulls. It returns those
// that it has removed. waits is called if somebody else is at work.
func (s *Store) Prune(ctx context.Context, waits func(), keep func(*Image) bool) (removed []*Image, err error) {
	unlock, err := s.lock(ctx, waits)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.sweep()
	errs := []error{safepath.RemoveTree(filepath.Join(s.dir, blobsName))}
	all, _ := s.List()
	for _, i := range all {
		if keep(i) {
			continue
		}
		if err := s.remove(i.Digest); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, i)
	}
	return removed, errors.Join(errs...)
}

// errBusy ends a sweep that would have to wait.
var errBusy = errors.New("somebody else changes the images")

// Sweep removes what killed processes left, but for blobs that were fetched whole. It does nothing
// while another process holds the lock, because that one has swept.
func (s *Store) Sweep(ctx context.Context) error {
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlock, err := s.lock(ctx, func() { cancel(errBusy) })
	if errors.Is(err, errBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	s.sweep()
	return nil
}

// sweep is Sweep for a caller that holds the lock.
func (s *Store) sweep() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		left := strings.HasPrefix(e.Name(), newName) || strings.HasPrefix(e.Name(), goneName)
		if IsDigest(sha + e.Name()) { // of which nothing is known, which is in the way of a pull
			_, err := os.Lstat(filepath.Join(s.dir, e.Name(), infoName))
			left = errors.Is(err, fs.ErrNotExist)
		}
		if left {
			_ = safepath.RemoveTree(filepath.Join(s.dir, e.Name()))
		}
	}
	blobs := filepath.Join(s.dir, blobsName)
	entries, _ = os.ReadDir(blobs)
	for _, e := range entries {
		if !IsDigest(sha + e.Name()) {
			_ = os.Remove(filepath.Join(blobs, e.Name()))
		}
	}
}

// lock waits for the lock of the store. waits is called if that takes time.
func (s *Store) lock(ctx context.Context, waits func()) (unlock func(), err error) {
	if err := safepath.Directory(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make room for images: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the images: %w", err)
	}
	for {
		switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock the images: %w", err)
		}
		if waits != nil {
			waits()
			waits = nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
