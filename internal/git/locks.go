package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mostLocks bounds how many names are looked at: the sandbox makes them.
const mostLocks = 20000

// Unlock removes the locks of gits that were killed with their sandbox, which would stop
// every git after them. Nothing may run inside. What cannot be removed stays, and git
// says so.
func (b *Bridge) Unlock() {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return // it is in memory, or not there yet
	}
	defer root.Close()
	seen := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		seen++
		switch {
		case seen > mostLocks:
			return fs.SkipAll
		case err != nil:
			return nil
		case d.IsDir() && !mayHaveLocks(name):
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(name, ".lock"):
			if err := root.Remove(name); errors.Is(err, fs.ErrPermission) {
				return fs.SkipDir
			}
		}
		return nil
	})
}

// moveRefs has git move refs of the user's repository that are about this sandbox, all or none.
// A git that was killed in the wrong moment, while the kernel made the file of a lock, has left
// it, and no other git would ever move that ref again.
func (b *Bridge) moveRefs(ctx context.Context, why, orders string) error {
	// Without its last word nothing is done, should we be killed while we speak.
	orders = "start\n" + orders + "prepare\ncommit\n"
	for try := 0; ; try++ {
		_, err := b.refs().run(ctx, orders, "update-ref", "-m", why, "--create-reflog", "--stdin")
		if err == nil || try == mostTries || !strings.Contains(err.Error(), ".lock': File exists") || !b.unlockOwn() || !pause(ctx, betweenTries) {
			return err
		}
	}
}

// mostTries is how often a lock is looked at, until it has long been old enough to go.
const (
	mostTries    = 150
	betweenTries = 100 * time.Millisecond
)

// pause waits a moment, and is false if nobody waits for us.
func pause(ctx context.Context, moment time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(moment):
		return true
	}
}

// clearRefs removes what is no ref and was left where this sandbox's were, by a git that was
// killed: locks, logs and directories. Its own refs are gone, so nobody who is still at work
// there may go on. What cannot be removed does no harm.
func (b *Bridge) clearRefs(ctx context.Context, branch bool) {
	if !sandboxID().MatchString(b.ID) {
		return
	}
	for _, top := range []string{"", "logs"} {
		_ = os.RemoveAll(filepath.Join(b.Common, top, filepath.FromSlash(b.own())))
	}
	for try := 0; try < mostTries && b.unlockOwn() && pause(ctx, betweenTries); try++ {
	}
	if branch || b.Branch != "coffer/"+b.Name {
		return
	}
	log := filepath.Join(b.Common, "logs", filepath.FromSlash(b.branchRef()))
	_ = os.Remove(log)
	for _, top := range []string{"", "logs"} { // if it was the last; a file is a branch of the user's
		_ = syscall.Rmdir(filepath.Join(b.Common, top, "refs/heads/coffer"))
	}
}

// How old the lock of a ref is that nobody holds any more: git has it for the time that it takes
// to write a line. A branch may be moved by the user's git, too, with hooks that take theirs.
const (
	ownLockAge    = 2 * time.Second
	branchLockAge = 10 * time.Second
)

// unlockOwn removes locks that were left of refs that are nobody's but this sandbox's: coffer's
// own, and branches by its name. It says whether there are some, or were.
func (b *Bridge) unlockOwn() (locked bool) {
	look := func(path string, d fs.DirEntry, age time.Duration, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".lock") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // it is gone
		}
		if time.Since(info.ModTime()) > age {
			_ = os.Remove(path)
		}
		locked = true
		return nil
	}
	_ = filepath.WalkDir(filepath.Join(b.Common, filepath.FromSlash(b.own())), func(path string, d fs.DirEntry, err error) error {
		return look(path, d, ownLockAge, err)
	})
	branches, _ := os.ReadDir(filepath.Join(b.Common, "refs/heads/coffer"))
	for _, d := range branches {
		if name := strings.TrimSuffix(d.Name(), ".lock"); name == b.Name || strings.HasPrefix(name, b.Name+"@") {
			_ = look(filepath.Join(b.Common, "refs/heads/coffer", d.Name()), d, branchLockAge, nil)
		}
	}
	return locked
}

// mayHaveLocks says whether git makes locks in a directory of its own, besides those of
// objects, which it makes again under other names.
func mayHaveLocks(dir string) bool {
	top, _, _ := strings.Cut(path.Clean(dir), "/")
	return top == "." || top == "refs" || top == "worktrees"
}
