package sandbox

import "golang.org/x/sys/unix"

// openDirSameDevice opens a directory and recognizes a mount by its device.
func openDirSameDevice(dirfd int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dirfd, name, flags, 0)
	if err != nil {
		return -1, err
	}
	var here, there unix.Stat_t
	if err = unix.Fstat(dirfd, &here); err == nil {
		err = unix.Fstat(fd, &there)
	}
	if err == nil && here.Dev != there.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// inodeOf converts because the fields have another type on each system.
func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }
