package safepath

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// reading are the flags to open whatever is there: a pipe must not block, a terminal must not
// become ours.
const reading = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// ErrNotRegular is for what is no file to read: a directory, a pipe, a device.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is for a file that is larger than the caller wants to read.
var ErrTooLarge = errors.New("too large")

// OpenDir opens a directory to list it, by a path that is ours or the user's: links in it are
// followed.
func OpenDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// OpenFile opens the regular file rel below dir to read it.
func OpenFile(dir *os.File, rel string) (*os.File, os.FileInfo, error) {
	f, err := Open(dir, rel, reading, NoLinks)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: rel, Err: err}
	}
	return regular(f)
}

// OpenOwn opens a regular file of our own, or of the user's, which is no link.
func OpenOwn(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, reading|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	return regular(f)
}

func regular(f *os.File) (*os.File, os.FileInfo, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", f.Name(), ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ReadFile reads the regular file rel below dir, of at most so many bytes.
func ReadFile(dir *os.File, rel string, most int64) ([]byte, error) {
	f, _, err := OpenFile(dir, rel)
	if err != nil {
		return nil, err
	}
	return read(f, most)
}

// ReadOwn reads a regular file as [OpenOwn] opens it, of at most so many bytes.
func ReadOwn(path string, most int64) ([]byte, error) {
	f, _, err := OpenOwn(path)
	if err != nil {
		return nil, err
	}
	return read(f, most)
}

func read(f *os.File, most int64) ([]byte, error) {
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes: %w", f.Name(), most, ErrTooLarge)
	}
	return data, err
}
