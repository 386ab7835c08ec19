package git

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// quarantine is a directory in which git on the host fetches: a git directory that shares all with
// the user's but has refs and objects of its own. Git checks objects only when they come, and
// some of its checks come last: what it has once it takes for good. So nothing is among the
// user's objects before all of it is found good.
type quarantine struct{ dir string }

// landed is where refs are in a quarantine: git keeps those apart for every worktree.
const landed = "refs/worktree/"

// quarantine makes one. The caller removes it.
func (b *Bridge) quarantine() (q quarantine, err error) {
	// By this name git knows it for what it is, should we be killed.
	if q.dir, err = os.MkdirTemp(b.Objects[0], "tmp_objdir-coffer-"); err != nil {
		return q, err
	}
	dirs := []string{"objects/pack", "refs"}
	if isDir(filepath.Join(b.Common, "reftable")) {
		dirs = append(dirs, "reftable")
	}
	for _, dir := range dirs {
		err = errors.Join(err, os.MkdirAll(filepath.Join(q.dir, dir), 0o755))
	}
	err = errors.Join(err, writeFiles(q.dir, []rootfs.File{{Name: "HEAD", Data: "ref: refs/heads/main\n"}, {Name: "commondir", Data: b.Common + "\n"}}))
	if err != nil {
		q.remove()
	}
	return q, err
}

func (q quarantine) remove()         { os.RemoveAll(q.dir) }
func (q quarantine) objects() string { return filepath.Join(q.dir, "objects") }

// git runs in it.
func (q quarantine) git(b *Bridge) host {
	return host{dir: "/", where: []string{"--git-dir=" + q.dir}, objects: q.objects(),
		env: []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteObjects(b.Objects[0])}}
}

// A pack that is checked stays a pack, however small it is. An agent commits often, and every git
// looks into every pack: so a small one becomes loose objects, as if the user had committed.
const (
	maxLoose      = 100 // from so many objects on it stays one, as in git
	maxLooseBytes = 1 << 20
	// Objects of any size may be in a pack of a few bytes, which may then keep them.
	patienceLoose = 5 * time.Second
)

// loosen unpacks what came, if it is small. What cannot be unpacked stays a pack.
func (q quarantine) loosen(ctx context.Context, b *Bridge) error {
	packs, err := filepath.Glob(escapeGlob(q.objects()) + "/pack/*.pack")
	if err != nil || len(packs) != 1 {
		return err
	}
	f, err := os.Open(packs[0])
	if err != nil {
		return err
	}
	defer f.Close()
	var head [12]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() > maxLooseBytes || binary.BigEndian.Uint32(head[8:]) >= maxLoose {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patienceLoose)
	defer cancel()
	h := b.refs()
	h.objects = filepath.Join(q.dir, "loose") // where git does not see that it has them already
	if err := os.Mkdir(h.objects, 0o755); err != nil {
		return err
	}
	if _, err := h.read(ctx, f, "unpack-objects", "-q"); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(packs[0])); err != nil {
		return err
	}
	return moveObjects(h.objects, q.objects())
}

// moveObjects moves objects from one directory of objects to another. A pack is one when its
// index is there, so that comes last.
func moveObjects(from, to string) error {
	dirs, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		files, err := os.ReadDir(filepath.Join(from, d.Name()))
		if err == nil && len(files) > 0 {
			err = os.MkdirAll(filepath.Join(to, d.Name()), 0o777)
		}
		if err != nil {
			return err
		}
		slices.SortStableFunc(files, func(a, b os.DirEntry) int { // .rev, .pack, .idx
			return -strings.Compare(filepath.Ext(a.Name()), filepath.Ext(b.Name()))
		})
		for _, f := range files {
			if d.Name() == "pack" {
				if err := flush(filepath.Join(from, d.Name(), f.Name())); err != nil {
					return err
				}
			}
			if err := os.Rename(filepath.Join(from, d.Name(), f.Name()), filepath.Join(to, d.Name(), f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush puts a file on the disk, which the git that wrote it did not: most packs are taken apart.
func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
