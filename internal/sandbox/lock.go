package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// ErrRunning is for a sandbox whose lock is held.
var ErrRunning = errors.New("the sandbox is running")

// errHeld is returned by tryLock instead of waiting.
var errHeld = errors.New("held by another")

// A Lock is the right to run, change and remove a sandbox. The kernel releases it when the process
// ends. It belongs to the open file, so it can be handed to a child: see File. No finalizer releases it.
type Lock struct {
	sb *Sandbox
	fd atomic.Int32 // -1 once released
}

// Lock takes the sandbox's lock, or returns ErrRunning at once if it is held,
// and ErrNotFound if the sandbox has been removed.
func (sb *Sandbox) Lock() (*Lock, error) {
	return sb.lockWith(func() (*Lock, error) { return sb.takeLock(sb.dir) })
}

// Adopt takes over the lock from the parent process: f is what Lock.File returned there. It closes f.
func (sb *Sandbox) Adopt(f *os.File) (*Lock, error) {
	defer f.Close()
	return sb.lockWith(func() (*Lock, error) {
		have, err := f.Stat()
		if err != nil {
			return nil, err
		}
		want, err := os.Lstat(filepath.Join(sb.dir, lockName))
		if err != nil {
			return nil, err
		}
		if !os.SameFile(have, want) {
			return nil, fmt.Errorf("file %d is not its lock", f.Fd())
		}
		fd, err := dup(int(f.Fd()))
		if err != nil {
			return nil, err
		}
		return sb.newLock(fd) // taking a lock we hold already changes nothing
	})
}

func (sb *Sandbox) lockWith(take func() (*Lock, error)) (*Lock, error) {
	unlock, err := sb.store.lock()
	if err != nil {
		return nil, sb.store.hint(err)
	}
	defer unlock()
	lock, err := take()
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s", ErrNotFound, sb.Name)
	case errors.Is(err, ErrRunning):
		return nil, err
	}
	return nil, sb.store.hint(fmt.Errorf("lock sandbox %s: %w", sb.Name, err))
}

// newLock locks fd and owns it.
func (sb *Sandbox) newLock(fd int) (*Lock, error) {
	if err := tryLock(fd); err != nil {
		unix.Close(fd)
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("%w: %s", ErrRunning, sb.Name)
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	l := &Lock{sb: sb}
	l.fd.Store(int32(fd))
	return l, nil
}

// Release releases the lock, unless a File of it is still open. It may be called twice, and on nil.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	// Closing, not unlocking: that would take it from a child as well.
	if fd := l.fd.Swap(-1); fd >= 0 {
		unix.Close(int(fd))
	}
}

// File returns the lock as a file for [os/exec.Cmd.ExtraFiles]. The child calls Sandbox.Adopt, and
// the sandbox counts as running without a gap. The caller closes the file once the child has started,
// and releases the lock once the child has adopted it.
func (l *Lock) File() (*os.File, error) {
	fd, err := dup(int(l.fd.Load()))
	if err != nil {
		return nil, fmt.Errorf("hand over the lock of sandbox %s: %w", l.sb.Name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(l.sb.dir, lockName)), nil
}

// Running says whether the lock is held, also if that cannot be found out.
func (sb *Sandbox) Running() bool { return running(sb.dir) }

func running(dir string) bool {
	fd, err := openFile(filepath.Join(dir, lockName), unix.O_RDONLY)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer unix.Close(fd)
	held, err := lockHeld(fd)
	return held || err != nil
}

func dup(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// Either calls running with a line to the sandbox's supervisor or, if it does not run, stopped with
// its lock held. One that is starting or stopping is waited for.
func (sb *Sandbox) Either(ctx context.Context, running func(*wire.Line) error, stopped func() error) error {
	const tries = 400
	for try := range tries {
		line, err := wire.Connect(sb)
		if err == nil {
			defer line.Close()
			return running(line)
		}
		lock, err := sb.Lock()
		if err == nil {
			defer lock.Release()
			return stopped()
		}
		if !errors.Is(err, ErrRunning) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(time.Duration(try+1)*time.Millisecond, 50*time.Millisecond)):
		}
	}
	return ui.Error("the supervisor of sandbox "+sb.Name+" does not answer", "stop it with 'coffer stop --force "+sb.Name+"'")
}
