package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// ErrRemoved is what who waited for the included repositories of a sandbox gets if it was removed
// meanwhile.
var ErrRemoved = ui.Error("the sandbox was removed meanwhile", "see 'coffer ls'")

// ErrIncluding is what who cannot wait for others any longer gets.
var ErrIncluding = ui.Error("somebody is including a repository in the sandbox, or taking one out", "wait until that is done, or end it, and try again")

// patienceHold is how long who removes a sandbox waits for others: one of them may be stopped, as
// by Ctrl-Z, and nobody would say what for.
const patienceHold = 15 * time.Second

// HoldIncluded keeps others from including something, or taking it away, and removes nothing. It
// waits for who does so now, but not for ever.
func HoldIncluded(ctx context.Context, folder string) (release func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patienceHold, ErrIncluding)
	defer cancel()
	return hold(ctx, folder)
}

func hold(ctx context.Context, folder string) (release func(), err error) {
	path := filepath.Join(folder, "include.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrRemoved
	}
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
		return func() {}, nil // nobody can include something there
	}
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	// Who goes on without the folder makes another one, which is no sandbox.
	mine, err := f.Stat()
	if there, missing := os.Lstat(path); err != nil || missing != nil || !os.SameFile(mine, there) {
		f.Close()
		return nil, ErrRemoved
	}
	return func() { f.Close() }, nil
}

// flock locks a file when nobody else has it. It looks again and again, because the kernel cannot be
// told when to give up.
func flock(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock the included repositories: %w", err)
		}
		if !pause(ctx, 5*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// LockIncluded is HoldIncluded for who includes something, or takes it away. What those who
// were killed have left is removed, the files by purge.
func LockIncluded(ctx context.Context, folder string, purge func(dir string) error) (unlock func(), err error) {
	release, err := hold(ctx, folder)
	if err != nil {
		return nil, err
	}
	for _, dir := range halfIncluded(folder) {
		if b, openErr := Open(dir); openErr == nil { // else nothing was done yet
			err = b.Forget(ctx, b.Admin == "") // without it, nobody has worked there
		}
		if err == nil {
			err = purge(dir)
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// halfIncluded are the folders of repositories in whose including, or taking out, somebody was
// killed. One whose record cannot be read is none of them: it was written at once, and somebody may
// have worked there.
func halfIncluded(folder string) (dirs []string) {
	entries, _ := os.ReadDir(filepath.Join(folder, includeName)) // most have none
	for _, e := range entries {
		dir := filepath.Join(folder, includeName, e.Name())
		b, err := Open(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && (b.Admin == "" || b.Include != e.Name()) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// HalfIncluded opens the bridges of those in whose including, or taking out, somebody was
// killed, as far as there are some.
func HalfIncluded(folder string) (all []*Bridge) {
	for _, dir := range halfIncluded(folder) {
		if b, err := Open(dir); err == nil {
			all = append(all, b)
		}
	}
	return all
}
