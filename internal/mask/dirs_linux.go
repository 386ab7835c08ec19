package mask

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxDirs bounds how many directories are watched: the user has a limit for all programs.
const maxDirs = 20000

const interest = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// A DirWatch says whether anything happened in some directories since somebody looked, without looking
// again. The kernel keeps the events (inotify); nobody is woken by them but who waits, and once. They
// are read when the question is asked, and any of them means yes: what happened has to be seen by
// looking. Where the kernel cannot be asked, or has lost count, the answer is yes too, and so it is of
// the zero DirWatch, which is on no directory. Not seen are writes through a memory mapping that was
// made before, so a yes is certain to come only with the next event.
type DirWatch struct {
	fd   int
	open bool
	file *os.File // fd again, once somebody waits
	dirs int
	last int  // the kernel numbers watches as it makes them; this is the latest
	lost bool // something is not watched
}

// Begin forgets what happened so far. Directories are to be added as they are looked at.
func (w *DirWatch) Begin() {
	if w.last > 2*maxDirs {
		// Those that were moved away are watched still. Who moves ever new ones must not
		// use up what the user may have.
		w.Close()
	}
	if !w.open {
		fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		w.fd, w.open = fd, err == nil
	}
	w.lost, w.dirs = !w.open, 0
	w.drain()
}

// Add watches an open directory, before it is looked at.
func (w *DirWatch) Add(dir int) {
	if w.dirs++; w.lost || w.dirs > maxDirs {
		w.lost = true
		return
	}
	n, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", dir), interest)
	if err != nil {
		w.lost = true
	}
	w.last = max(w.last, n)
}

// Lose says that something is not watched which should be.
func (w *DirWatch) Lose() { w.lost = true }

// Blind says whether something is not watched, so that to wait would be in vain.
func (w *DirWatch) Blind() bool { return !w.open || w.lost || w.dirs == 0 }

// Happened says whether anything did since Begin.
func (w *DirWatch) Happened() bool {
	if w.Blind() {
		return true
	}
	w.lost = w.drain()
	return w.lost
}

// Wait waits until something has happened since Begin, or the context ends. Only who waits
// is woken by the kernel, and once.
func (w *DirWatch) Wait(ctx context.Context) {
	if w.Happened() {
		return
	}
	if w.file == nil {
		w.file = os.NewFile(uintptr(w.fd), "inotify") // which the runtime can wait for
	}
	_ = w.file.SetReadDeadline(time.Time{})
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = w.file.SetReadDeadline(time.Unix(1, 0))
	})
	var b [4 << 10]byte
	if n, err := w.file.Read(b[:]); n > 0 || err != nil && ctx.Err() == nil {
		w.lost = true
	}
	if !stop() {
		<-ended
	}
}

// drain reads all events, and says whether there were any.
func (w *DirWatch) drain() (any bool) {
	var b [16 << 10]byte
	for w.open {
		n, err := unix.Read(w.fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return any || err != unix.EAGAIN
		}
		any = true
	}
	return true
}

// Close watches nothing any more.
func (w *DirWatch) Close() {
	switch {
	case w.file != nil:
		w.file.Close()
	case w.open:
		unix.Close(w.fd)
	}
	*w = DirWatch{}
}
