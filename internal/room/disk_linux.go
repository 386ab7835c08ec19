package room

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Disk is a file system that is looked at.
type Disk struct {
	fd  int
	dev uint64
}

// Open opens the file system that a path is on. It is held by a descriptor with which nothing can
// be read or changed, so that it stays the same one, whatever becomes of the path.
func Open(path string) (*Disk, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return &Disk{fd, st.Dev}, nil
}

// Same says whether two are one.
func (d *Disk) Same(o *Disk) bool { return d.dev == o.dev }

// Look says what is left of it, and nothing if the file system does not count.
func (d *Disk) Look() (f Free, counts bool) {
	var st unix.Statfs_t
	err := unix.EINTR
	for err == unix.EINTR {
		err, _ = unix.Fstatfs(d.fd, &st).(unix.Errno)
	}
	if err != 0 || st.Blocks == 0 {
		return Free{}, false
	}
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return Free{Bytes: st.Bavail * unit, Files: st.Ffree}, true
}

// Close lets go of it.
func (d *Disk) Close() { unix.Close(d.fd) }
