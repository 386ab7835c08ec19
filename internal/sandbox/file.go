package sandbox

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// The few file operations on the way of every `coffer run`. They go to the
// kernel directly because os.File would register each file with the network
// poller, and because a lock must not be dropped by a finalizer.

// openFile opens one of our own files; never through a link, never inherited.
func openFile(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readFile reads at most max bytes, and one more to tell that there are more.
// O_NONBLOCK keeps a named pipe in a file's place from stopping us.
func readFile(path string, max int) ([]byte, error) {
	fd, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 2048)
	for len(data) <= max {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
	}
	return data[:max+1], nil
}

// writeFile replaces what is in path, and with durable waits until the disk has it.
func writeFile(path string, data []byte, durable bool) error {
	fd, err := openFile(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if err != nil {
		return err
	}
	for len(data) > 0 && err == nil {
		var n int
		if n, err = unix.Write(fd, data); errors.Is(err, unix.EINTR) {
			n, err = 0, nil
		}
		data = data[max(n, 0):]
	}
	if err == nil && durable {
		err = unix.Fsync(fd)
	}
	// Network file systems report a full disk only here.
	if closeErr := unix.Close(fd); err == nil {
		err = closeErr
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// syncDir makes renames in a directory survive a power cut.
func syncDir(path string) error {
	fd, err := openFile(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// File systems that cannot sync a directory say EINVAL; they have nothing to sync.
	if err := unix.Fsync(fd); err != nil && !errors.Is(err, unix.EINVAL) {
		return &fs.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// rename is os.Rename without the look at the target beforehand.
func rename(from, to string) error {
	if err := unix.Rename(from, to); err != nil {
		return &fs.PathError{Op: "rename", Path: from, Err: err}
	}
	return nil
}

func mkdir(path string) error {
	if err := unix.Mkdir(path, 0o700); err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}
