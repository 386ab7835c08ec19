//go:build !linux

package sandbox

import "golang.org/x/sys/unix"

func openDir(dirfd int, name string, flags int) (int, error) {
	return openDirSameDevice(dirfd, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
}

func chmodDir(dirfd int, name string) error {
	return unix.Fchmodat(dirfd, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}
