package gitbridge

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What comes over stays the pack that it came in, however little it is: to write a file of
// every object takes longer than all the rest, and somebody waits. But an agent commits often,
// and every git, inside and outside, looks into every pack there is: after an hour they would
// all be slow. So small packs are taken apart, as git does it, when nobody waits.

// maxLoose is the number of objects from which a pack stays one, as in git.
const maxLoose = 100

// maxLooseBytes is how large they may be together: a pack of a few bytes can hold files of
// gigabytes, and is welcome to keep them.
const maxLooseBytes = 16 << 20

// packs are those of the host's repository.
func (b *Bridge) packs() (names []string) {
	list, _ := os.ReadDir(filepath.Join(b.Objects[0], "pack"))
	for _, d := range list {
		if strings.HasSuffix(d.Name(), ".pack") && d.Type().IsRegular() {
			names = append(names, d.Name())
		}
	}
	return names
}

// noteNew remembers the packs that are there now and were not before.
func (b *Bridge) noteNew(before []string) {
	var fresh []string
	for _, name := range b.packs() {
		if !slices.Contains(before, name) {
			fresh = append(fresh, name)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.small = append(b.small, fresh...)
}

// tidyPatience is how long all of that may take: a stop waits for it.
const tidyPatience = 20 * time.Second

// manySmall is how many small packs there are before they are taken apart at the next opportunity.
const manySmall = 16

// TidyMany is Tidy if there is much to do.
func (b *Bridge) TidyMany(ctx context.Context) {
	b.mu.Lock()
	many := len(b.small) > manySmall
	b.mu.Unlock()
	if many {
		b.Tidy(ctx)
	}
}

// Tidy takes the small packs apart that came since the last time. What cannot be stays as it
// is, which does no harm.
func (b *Bridge) Tidy(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, tidyPatience)
	defer stop()
	b.mu.Lock()
	names := b.small
	b.small = nil
	b.mu.Unlock()
	for i, name := range names {
		if err := b.loosen(ctx, filepath.Join(b.Objects[0], "pack", name)); err != nil && ctx.Err() != nil {
			b.mu.Lock()
			b.small = append(b.small, names[i:]...) // another time
			b.mu.Unlock()
			return
		}
	}
}

// loosen takes a pack apart. Its objects are written aside and moved to their places before
// it goes: at no time is one of them missing.
func (b *Bridge) loosen(ctx context.Context, pack string) error {
	f, err := os.Open(pack)
	if err != nil {
		return err
	}
	defer f.Close()
	if small, err := b.isSmall(f); err != nil || !small {
		return err
	}
	stem := strings.TrimSuffix(pack, ".pack")
	for _, kind := range []string{".keep", ".promisor", ".mtimes", ".bitmap"} {
		if _, err := os.Lstat(stem + kind); !errors.Is(err, fs.ErrNotExist) {
			return err // somebody has plans with it
		}
	}
	// By this name git knows it for what it is, should we be killed.
	aside, err := os.MkdirTemp(b.Objects[0], "tmp_objdir-coffer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	h := b.refs()
	h.objects = aside
	if _, err := h.read(ctx, f, "unpack-objects", "-q"); err != nil {
		return err
	}
	if err := moveObjects(aside, b.Objects[0]); err != nil {
		return err
	}
	for _, kind := range []string{".rev", ".idx", ".pack"} {
		if err := os.Remove(stem + kind); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isSmall says whether the objects of a pack are few and not large, and goes back to its
// beginning.
func (b *Bridge) isSmall(f io.ReadSeeker) (bool, error) {
	_, err := unpackedSize(f, int64(b.idSize()), maxLoose-1, maxLooseBytes)
	if errors.Is(err, errMuch) {
		return false, nil
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return err == nil, err
}

// moveObjects moves objects from one directory of objects to another. A pack is one when its
// index is there, so that comes last.
func moveObjects(from, to string) error {
	dirs, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if d.Name() == "pack" && d.IsDir() {
			if err := movePacks(filepath.Join(from, "pack"), filepath.Join(to, "pack")); err != nil {
				return err
			}
		}
		if len(d.Name()) != 2 || !d.IsDir() {
			continue
		}
		if os.Rename(filepath.Join(from, d.Name()), filepath.Join(to, d.Name())) == nil {
			continue // there was none yet
		}
		files, err := os.ReadDir(filepath.Join(from, d.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Rename(filepath.Join(from, d.Name(), f.Name()), filepath.Join(to, d.Name(), f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func movePacks(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, kind := range []string{".pack", ".rev", ".idx"} {
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), kind) {
				continue
			}
			if err := os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
