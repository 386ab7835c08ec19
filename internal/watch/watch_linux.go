package watch

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxDirs bounds how many directories are watched: the user has a limit for all programs.
const maxDirs = 20000

const interest = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// A Watch is on some directories. The zero Watch is on none, and always says yes.
type Watch struct {
	fd   int
	open bool
	dirs int
	lost bool // something is not watched
}

// Begin forgets what happened so far. Directories are to be added as they are looked at.
func (w *Watch) Begin() {
	if !w.open {
		fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		w.fd, w.open = fd, err == nil
	}
	w.lost, w.dirs = !w.open, 0
	w.drain()
}

// Add watches an open directory, before it is looked at.
func (w *Watch) Add(dir int) {
	if w.dirs++; w.lost || w.dirs > maxDirs {
		w.lost = true
		return
	}
	if _, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", dir), interest); err != nil {
		w.lost = true
	}
}

// Happened says whether anything did since Begin.
func (w *Watch) Happened() bool {
	if !w.open || w.lost || w.dirs == 0 {
		return true
	}
	w.lost = w.drain()
	return w.lost
}

// drain reads all events, and says whether there were any.
func (w *Watch) drain() (any bool) {
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
func (w *Watch) Close() {
	if w.open {
		unix.Close(w.fd)
	}
	*w = Watch{}
}
