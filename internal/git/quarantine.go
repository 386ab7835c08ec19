package git

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// A small pack becomes loose objects, as if the user had committed: an agent commits often, and
// every git looks into every pack.
const (
	maxLoose      = 100 // objects, as in git
	maxLooseBytes = 1 << 20
	patienceLoose = 5 * time.Second // a pack of a few bytes may have objects of any size
)

// release has git store what was fetched, and checked, among the user's objects.
func (q quarantine) release(ctx context.Context, b *Bridge) error {
	packs, err := filepath.Glob(escapeGlob(q.objects()) + "/pack/*.pack")
	for _, pack := range packs {
		if err = q.unpack(ctx, b, pack); err != nil {
			if err = q.store(ctx, b, pack); err != nil {
				return fmt.Errorf("store what was fetched: %w", err)
			}
		}
	}
	return err
}

var errNotSmall = errors.New("the pack is not small")

// unpack stores a small pack as loose objects.
func (q quarantine) unpack(ctx context.Context, b *Bridge, pack string) error {
	f, err := os.Open(pack)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [12]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxLooseBytes || binary.BigEndian.Uint32(head[8:]) >= maxLoose {
		return errNotSmall
	}
	ctx, cancel := context.WithTimeout(ctx, patienceLoose)
	defer cancel()
	_, err = b.refs().read(ctx, f, "unpack-objects", "-q")
	return err
}

// store stores a pack as it is.
func (q quarantine) store(ctx context.Context, b *Bridge, pack string) error {
	f, err := os.Open(pack)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = b.refs().read(ctx, f, "index-pack", "--stdin")
	return err
}
