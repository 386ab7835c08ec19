package limits

import (
	"fmt"
	"math"
	"strconv"

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

// space is an amount of a file system.
type space struct{ bytes, files uint64 }

// floorFor is what is to stay free of a file system of which so much is free now. It is never more than
// half of that: a disk that is nearly full already must not be in the way. Of the files that can
// be made it keeps one for each 16 KiB, which is how many file systems are made for. One that does not
// count its files has none free, and keeps none.
func floorFor(keep uint64, free space) space {
	return space{min(keep, free.bytes/2), min(keep>>14, free.files/2)}
}

// short says what there is less of than the floor, or nothing.
func (floor space) short(free space) string {
	switch {
	case free.bytes < floor.bytes:
		return "less than " + size(floor.bytes) + " is free"
	case free.files < floor.files:
		return fmt.Sprintf("fewer than %d files can be made", floor.files)
	}
	return ""
}

// size is a number of bytes as people say it.
func size(bytes uint64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if n := float64(bytes) / float64(uint64(1)<<(30-10*i)); n >= 1 {
			return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + " " + unit
		}
	}
	return fmt.Sprint(bytes, " bytes")
}
