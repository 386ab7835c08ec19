package rootfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// Steps that make a file, and not only show one.

func (a *assembly) symlink(s *Step) error {
	i := strings.LastIndexByte(s.Target, '/')
	parent, err := a.root.make(s.Target[:max(i, 1)], true)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return unix.Symlinkat(s.Data, parent, s.Target[i+1:])
}

// replace lays a small read-only file over another one.
func (a *assembly) replace(s *Step) error {
	at, err := a.root.open(s.Target)
	if s.Create && errors.Is(err, unix.ENOENT) {
		at, err = a.root.make(s.Target, false)
	}
	if err != nil {
		return err // nothing there to replace, or a link to somewhere else
	}
	defer unix.Close(at)
	name := Own + "/files" + s.Target
	if fd, err := a.root.make(name, false); err != nil {
		return err
	} else {
		unix.Close(fd)
	}
	if err := os.WriteFile(name, []byte(s.Data), 0o644); err != nil {
		return err
	}
	fd, err := a.root.open(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = cover(fd, at, unix.MOUNT_ATTR_RDONLY|safe)
	if errors.Is(err, unix.ENOENT) {
		return ui.Error("it is a mount of a file that was removed", "restart the container that coffer runs in, or unmount "+s.Target)
	}
	return err
}

// seed makes a file that programs inside may change. What is there already is theirs, and
// so may be what is on the way.
func (a *assembly) seed(s *Step) error {
	dir, err := a.root.open(filepath.Dir(s.Target))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, filepath.Base(s.Target), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(s.Data))
	return err
}

// write makes a new file.
func (a *assembly) write(s *Step) error {
	parent, err := a.root.make(filepath.Dir(s.Target), true)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	mode := uint32(0o644)
	if s.Exec {
		mode = 0o755
	}
	fd, err := unix.Openat(parent, filepath.Base(s.Target), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), s.Target)
	defer to.Close()
	if s.Do == Write {
		_, err = to.WriteString(s.Data)
		return err
	}
	from, err := os.Open(s.Source)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return err
}
