package jail

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a clerk can change about a file that is open for nothing but to name it. Where the
// kernel has no call for such a descriptor, it is named by the link that /proc has for it.

// chmodTo changes the mode to an argument.
func chmodTo(mode int) change {
	return func(q *question) (func(int) error, error) {
		m := uint32(q.args[mode])
		if m&(unix.S_ISUID|unix.S_ISGID) != 0 { // the filter has looked already
			return nil, unix.EPERM
		}
		return func(file int) error {
			var st unix.Stat_t
			if err := unix.Fstat(file, &st); err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT == unix.S_IFLNK {
				return unix.EOPNOTSUPP
			}
			return unix.Chmod(magic(file), m)
		}, nil
	}
}

// chownTo changes owner and group to two arguments.
func chownTo(owner int) change {
	return func(q *question) (func(int) error, error) {
		uid, gid := int(int32(q.args[owner])), int(int32(q.args[owner+1]))
		return func(file int) error { return unix.Fchownat(file, "", uid, gid, unix.AT_EMPTY_PATH) }, nil
	}
}

// How calls pass times: two of these, or a null pointer for now.
type clock struct {
	size  int // of both
	parse func(b []byte) [2]unix.Timespec
}

var nanoseconds = clock{32, func(b []byte) [2]unix.Timespec {
	n := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[8*i:])) }
	return [2]unix.Timespec{{Sec: n(0), Nsec: n(1)}, {Sec: n(2), Nsec: n(3)}}
}}

// timesTo changes the times of access and modification to what an argument points to.
func timesTo(times int, c clock) change {
	return func(q *question) (func(int) error, error) {
		var ts *[2]unix.Timespec
		if q.args[times] != 0 {
			buf := make([]byte, c.size)
			if _, err := q.read(q.args[times], buf); err != nil {
				return nil, err
			}
			parsed := c.parse(buf)
			ts = &parsed
		}
		return func(file int) error {
			_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(file), uintptr(unsafe.Pointer(&[1]byte{})),
				uintptr(unsafe.Pointer(ts)), unix.AT_EMPTY_PATH, 0, 0)
			if errno != 0 {
				return errno
			}
			return nil
		}, nil
	}
}

// The kernel's own limits.
const (
	maxXattrName = 256
	maxXattr     = 65536
)

func setXattr(q *question) (func(int) error, error) {
	name, err := q.xattr()
	if err != nil {
		return nil, err
	}
	if q.args[3] > maxXattr {
		return nil, unix.E2BIG
	}
	value := make([]byte, q.args[3])
	if _, err := q.read(q.args[2], value); err != nil {
		return nil, err
	}
	flags := int(int32(q.args[4]))
	return func(file int) error { return unix.Setxattr(magic(file), name, value, flags) }, nil
}

func removeXattr(q *question) (func(int) error, error) {
	name, err := q.xattr()
	return func(file int) error { return unix.Removexattr(magic(file), name) }, err
}

// xattr is the attribute's name.
func (q *question) xattr() (string, error) {
	name, err := q.text(q.args[1], maxXattrName)
	if err == unix.ENAMETOOLONG {
		err = unix.ERANGE
	}
	return name, err
}
