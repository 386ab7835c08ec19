package jail

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"golang.org/x/sys/unix"
)

// A file that does not exist cannot be made read-only. So that nobody makes it, its name
// is taken for as long as a jail lasts: by an empty directory, which git does not list and
// no shell or editor reads; where the program would stumble over that, by a socket, on which
// it finds an empty file; or, where git itself would, by a file that says what is the case
// anyway. In the jail a read-only mount is over it.
//
// Several jails may share a name, so each holds a lock, and the last removes it. What a
// killed coffer left behind is known by its mode or content, and taken over.

// The marks of what is there to take a name.
const (
	reservedMode   = fs.ModeDir | fs.ModeSticky | 0o755
	reservedSocket = fs.ModeSocket | fs.ModeSticky
)

// reserved says whether what is at a path is only there to take the name, or, a directory,
// was and has something in it.
func reserved(place rootfs.Place, info fs.FileInfo) bool {
	switch mode := info.Mode(); {
	case mode == reservedMode || mode == reservedSocket:
		return !place.File
	case !place.File || mode != 0o444 || info.Size() != int64(len(place.Content)):
		return false
	}
	content, err := os.ReadFile(place.Path)
	return err == nil && bytes.Equal(content, []byte(place.Content))
}

// names are those that this process holds.
type names struct {
	places  []rootfs.Place
	context *os.File // locked while somebody holds names for it
}

// take makes the places. One lock, on the context, stands for all of its names. What
// somebody else made for good meanwhile is just left.
func take(context string, places []rootfs.Place) (*names, error) {
	n := &names{}
	if len(places) == 0 {
		return n, nil
	}
	var err error
	if n.context, err = os.Open(context); err != nil {
		return nil, err
	}
	if err := lockShared(n.context); err != nil {
		n.context.Close()
		return nil, fmt.Errorf("lock %s: %w", context, err)
	}
	for _, place := range places {
		switch err := n.put(&place); {
		case err == nil, errors.Is(err, fs.ErrExist):
			n.places = append(n.places, place)
		case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
			// Where we cannot make it, nor can the program.
		default:
			n.release()
			return nil, fmt.Errorf("reserve %s: %w", place.Path, err)
		}
	}
	return n, nil
}

// put takes one name, and notes if it is not taken by a socket although it could be.
func (n *names) put(place *rootfs.Place) error {
	if place.Socket {
		err := unix.Mknod(place.Path, unix.S_IFSOCK|unix.S_ISVTX, 0)
		if errors.Is(err, fs.ErrExist) {
			info, lerr := os.Lstat(place.Path)
			place.Socket = lerr == nil && info.Mode() == reservedSocket
			return err
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EINVAL) {
			return err
		}
		place.Socket = false // there are none on this file system
	}
	return put(*place, 0o1755, 0o444)
}

// put makes a directory or a file, complete in one step for whoever looks.
func put(place rootfs.Place, dir uint32, file fs.FileMode) error {
	if !place.File {
		if err := unix.Mkdir(place.Path, dir); err != nil {
			return err
		}
		return unix.Chmod(place.Path, dir) // in spite of an unusual umask
	}
	f, err := os.CreateTemp(filepath.Dir(place.Path), ".coffer-new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(place.Content)
	if err = errors.Join(err, f.Chmod(file), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), place.Path)
}

// seed makes places that stay.
func seed(places []rootfs.Place) error {
	for _, place := range places {
		if err := put(place, 0o700, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make %s: %w", place.Path, err)
		}
	}
	return nil
}

// lockShared waits a while for a jail that is just giving its names back, but not for
// somebody who has locked the directory for reasons of their own.
func lockShared(f *os.File) (err error) {
	for range 200 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// silent are those that are taken by a socket.
func (n *names) silent() (paths []string) {
	for _, place := range n.places {
		if place.Socket {
			paths = append(paths, place.Path)
		}
	}
	return paths
}

// release gives the names back, unless another jail holds them too. The program must be
// gone.
func (n *names) release() {
	if n.context == nil {
		return
	}
	defer n.context.Close()
	if unix.Flock(int(n.context.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	for _, place := range n.places {
		switch info, err := os.Lstat(place.Path); {
		case err != nil || !reserved(place, info):
		case info.IsDir():
			giveBack(place.Path)
		default:
			_ = unix.Unlink(place.Path)
		}
	}
}

// giveBack removes a directory that took a name. If the user has put something into it
// meanwhile it is the user's, and becomes one like any other.
func giveBack(path string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode != unix.S_IFDIR|0o1755 {
		return
	}
	if unix.Rmdir(path) != nil {
		_ = unix.Fchmod(fd, 0o755)
	}
}
