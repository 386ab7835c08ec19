package room

import (
	"os"
	"strings"

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

// Below lists where other file systems are mounted below a path, which is one without links.
func Below(path string) []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return below(string(text), path)
}

// blanks undoes how the kernel writes them in a path.
var blanks = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func below(mountinfo, path string) (points []string) {
	for line := range strings.Lines(mountinfo) {
		// 36 35 98:0 / /mnt/disk rw,noatime shared:1 - ext4 /dev/disk rw
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if point := blanks.Replace(f[4]); strings.HasPrefix(point, strings.TrimSuffix(path, "/")+"/") {
			points = append(points, point)
		}
	}
	return points
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
