package safepath

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// InRoot has links resolved as if the directory were the root.
const InRoot = unix.RESOLVE_IN_ROOT

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
	if resolve&InRoot == 0 {
		resolve |= unix.RESOLVE_BENEATH
	}
	fd, err := openat2(int(dir.Fd()), rel, flags, resolve|unix.RESOLVE_NO_MAGICLINKS)
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

// openDir opens the directory name in dirfd itself: ENOTDIR for a link, EXDEV for a mount
// point. openat2 sees bind mounts of the same file system too, which device numbers do not
// show; and it takes a btrfs subvolume for the plain directory it is to us.
func openDir(dirfd int, name string, flags int) (int, error) {
	return openat2(dirfd, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW, unix.RESOLVE_NO_XDEV)
}

// chmodDir makes a directory usable that cannot be opened. Through a descriptor
// that only points at it, because chmod by name would follow a link, and
// fchmodat2 is too new (Linux 6.6).
func chmodDir(dirfd int, name string) error {
	fd, err := openDir(dirfd, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
