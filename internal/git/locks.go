package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// pause waits, and returns false if the context ends first.
func pause(ctx context.Context, moment time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(moment):
		return true
	}
}

// mostTries is how often a lock is looked at: until it has long been old enough to go.
const (
	mostTries    = 150
	betweenTries = 100 * time.Millisecond
)

// ownRefs are the refs of the user's repository that are about one sandbox.
type ownRefs struct {
	*State
	git host
}

func (b *Bridge) ownRefs() ownRefs { return ownRefs{&b.State, b.refs()} }

// move has git move refs of the user's repository that are about this sandbox, all or none.
// A git that is killed while the kernel makes the file of a lock leaves it, and no other git
// would ever move that ref again.
func (b ownRefs) move(ctx context.Context, why, orders string) error {
	// If we are killed before the last word, git does nothing.
	orders = "start\n" + orders + "prepare\ncommit\n"
	for try := 0; ; try++ {
		_, err := b.git.run(ctx, orders, "update-ref", "-m", why, "--create-reflog", "--stdin")
		if err == nil || try == mostTries || !strings.Contains(err.Error(), ".lock': File exists") || !b.unlock() || !pause(ctx, betweenTries) {
			return err
		}
	}
}

// How old the lock of a ref is that nobody holds any more. A branch may be moved by the user's
// git, too, with hooks that take their time.
const (
	ownLockAge    = 2 * time.Second
	branchLockAge = 10 * time.Second
)

// unlock removes old locks of refs that are nobody's but this sandbox's, and reports
// whether there are some, or were.
func (b ownRefs) unlock() (locked bool) {
	try := func(path string, age time.Duration) {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			return
		}
		if time.Since(info.ModTime()) > age {
			_ = os.Remove(path)
		}
		locked = true
	}
	_ = filepath.WalkDir(filepath.Join(b.Common, filepath.FromSlash(b.own())), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".lock") {
			try(path, ownLockAge)
		}
		return nil
	})
	branch := filepath.Join(b.Common, wayRef, b.Name)
	try(branch+".lock", branchLockAge)
	others, _ := filepath.Glob(escapeGlob(branch) + "@*.lock")
	for _, path := range others {
		try(path, branchLockAge)
	}
	return locked
}

// clear removes what is no ref and was left where this sandbox's were, by a git that was
// killed: locks, logs and directories. Its own refs are gone, so no git may go on there.
func (b ownRefs) clear(ctx context.Context, branch bool) {
	if !sandboxID.MatchString(b.ID) {
		return
	}
	for _, top := range []string{"", "logs"} {
		_ = os.RemoveAll(filepath.Join(b.Common, top, filepath.FromSlash(b.own())))
	}
	for try := 0; try < mostTries && b.unlock() && pause(ctx, betweenTries); try++ {
	}
	if branch || b.Branch != "coffer/"+b.Name {
		return
	}
	_ = os.Remove(filepath.Join(b.Common, "logs", filepath.FromSlash(b.branchRef())))
	for _, top := range []string{"", "logs"} { // if it was the last; a file is a branch of the user's
		_ = syscall.Rmdir(filepath.Join(b.Common, top, wayRef))
	}
}

// ours is what a lock of ours says.
const ours = "coffer\n"

// indexTries is how often a lock that git holds is tried: for two seconds.
const indexTries = 100

// lockIndex takes the lock that git takes to write an index.
func lockIndex(ctx context.Context, index string) (unlock func(), err error) {
	lock := index + ".lock"
	for try := 1; ; try++ {
		if err = putLock(lock); err == nil {
			return func() { os.Remove(lock) }, nil
		}
		// Only one of us syncs: the maker of one of ours was killed.
		if words, err := firstLine(lock); err == nil && words+"\n" == ours {
			os.Remove(lock)
			continue
		}
		if !errors.Is(err, fs.ErrExist) || try == indexTries {
			return nil, err
		}
		if !pause(ctx, 20*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// putLock makes a lock that says from its first moment whose it is: if we are killed, it must
// not look like git's.
func putLock(lock string) error {
	mine := strings.TrimSuffix(lock, ".lock") + ".coffer.lock"
	defer os.Remove(mine)
	if err := os.WriteFile(mine, []byte(ours), 0o600); err != nil {
		return err
	}
	return os.Link(mine, lock)
}
