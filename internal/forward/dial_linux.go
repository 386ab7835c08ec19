package forward

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dialSocket connects to a socket of the host by a path without links. Somebody may have
// put one there since the user named it: the directory is opened without following any,
// and the socket looked at in that directory.
func dialSocket(path string, patience time.Duration) (net.Conn, error) {
	dir, name := filepath.Split(path)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	socket, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(socket)
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s is not a socket", path)
	}
	d := net.Dialer{Timeout: patience}
	return d.Dial("unix", fmt.Sprintf("/proc/self/fd/%d", socket))
}
