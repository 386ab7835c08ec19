package limits

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A Disk is a file system that is to stay free to some extent. An ordinary user can set no
// quota, so somebody has to look. It may be nil, of which nothing is short.
type Disk struct {
	fd    int // O_PATH: it stays the same disk, whatever becomes of the path
	dev   uint64
	floor space
	low   string // what was short at the last look
}

// OpenDisk opens the file system of a path. At least keep bytes of it are to stay free, or half of
// what is free now. One that does not count what is free is refused.
func OpenDisk(path string, keep uint64) (*Disk, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	d := &Disk{fd: fd}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	var free space
	if err == nil {
		d.dev = st.Dev
		free, err = d.free()
	}
	if err != nil {
		d.Close()
		return nil, pathError("stat", path, err)
	}
	d.floor = floorFor(keep, free)
	return d, nil
}

func (d *Disk) free() (space, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &st); err != nil {
		return space{}, err
	}
	if st.Blocks == 0 {
		return space{}, fmt.Errorf("the file system does not count what is free")
	}
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return space{st.Bavail * unit, st.Ffree}, nil
}

// Short says in words what is short on the disk, or nothing. Once something is, it is until an
// eighth more than the floor is free: programs that go on would only be stopped again at once.
func (d *Disk) Short() string {
	if d == nil {
		return ""
	}
	free, err := d.free()
	if err != nil {
		return d.low
	}
	above := d.floor
	if d.low != "" {
		above = space{above.bytes + above.bytes/8, above.files + above.files/8}
	}
	if above.short(free) == "" {
		d.low = ""
	} else if d.low == "" {
		d.low = d.floor.short(free)
	}
	return d.low
}

// Same says whether two are one file system.
func (d *Disk) Same(o *Disk) bool { return d.dev == o.dev }

// Close closes it.
func (d *Disk) Close() {
	if d != nil {
		unix.Close(d.fd)
	}
}
