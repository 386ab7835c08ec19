package safepath

import (
	"os"

	"golang.org/x/sys/unix"
)

// What else ends a resolution. That the path leads out of the directory always does.
const (
	NoLinks  = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	NoMounts = unix.RESOLVE_NO_XDEV
)

// Open opens rel ("" or "." is the directory itself) below dir. The error is the kernel's: ELOOP
// for a link on the way, EXDEV for a mount point or a way out. openat2 is in every kernel since
// 5.6.
func Open(dir *os.File, rel string, flags int, resolve uint64) (*os.File, error) {
	if rel == "" {
		rel = "."
	}
	fd, err := openat2(int(dir.Fd()), rel, flags, resolve|unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// openat2 repeats a call that a signal or a rename elsewhere cut short; not for ever, as a
// sandbox that renames all day could otherwise keep us here.
func openat2(dir int, name string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for range 127 {
		fd, err := unix.Openat2(dir, name, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}
