package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the longest path the kernel takes in one call (PATH_MAX less the
// NUL). Nothing longer is listed or applied: no program could open it by name.
const maxPath = unix.PathMax - 1

// readFlags open a file to read it whatever it is: a FIFO must not block us, a
// terminal must not become ours, a symlink must not be followed.
const readFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// tree is a directory below which paths are resolved, and never outside it.
type tree struct {
	root  *os.File
	mount uint64 // for resolution without openat2
}

// openTree opens the root of a tree. The path to it is Coffer's or the user's,
// so links above it are followed; the upper's own last component is Coffer's
// directory and never a link.
func openTree(what, path string, extra int) (*tree, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|extra, 0)
	})
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", what, Quote(path), err)
	}
	t := &tree{root: os.NewFile(uintptr(fd), path)}
	if t.mount, err = mountID(t.root); err != nil {
		t.Close()
		return nil, fmt.Errorf("open %s %s: %w", what, Quote(path), err)
	}
	return t, nil
}

func (t *tree) Close() error { return t.root.Close() }

// noOpenat2 is set once openat2 was refused: seccomp filters older than the
// call do so, kernels that can mount with userxattr (5.11) all have it (5.6).
var noOpenat2 atomic.Bool

// open opens the directory rel ("" is the root), through no symlink, no mount
// point and no "..". An error is ELOOP or ENOTDIR for a link on the way, EXDEV
// for a mount point.
func (t *tree) open(rel string, flags int) (*os.File, error) {
	if rel == "" {
		rel = "."
	}
	if noOpenat2.Load() {
		return t.walk(rel, flags)
	}
	how := unix.OpenHow{
		Flags: uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS |
			unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := retry(func() (int, error) { return unix.Openat2(int(t.root.Fd()), rel, &how) })
	if err == unix.ENOSYS || err == unix.EPERM {
		// EPERM is a seccomp filter's way to say it knows no such call; opening
		// a directory for reading has no other reason to return it.
		noOpenat2.Store(true)
		return t.walk(rel, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// walk is open by one openat per component.
func (t *tree) walk(rel string, flags int) (*os.File, error) {
	at := t.root
	parts := strings.Split(rel, "/")
	for i, part := range parts {
		if part == ".." || part == "" {
			return nil, unix.EXDEV
		}
		f := unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i == len(parts)-1 {
			f = flags
		}
		next, err := openAt(at, part, f)
		if at != t.root {
			at.Close()
		}
		if err != nil {
			return nil, err
		}
		id, err := mountID(next)
		if err == nil && id != t.mount {
			err = unix.EXDEV
		}
		if err != nil {
			next.Close()
			return nil, err
		}
		at = next
	}
	return at, nil
}

// dir opens a directory to list it and to work in it.
func (t *tree) dir(rel string) (*os.File, error) { return t.open(rel, dirFlags) }

// openAt opens one name in an open directory.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW, 0) })
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openRegular opens a regular file for reading; ErrChanged if it is none.
func openRegular(dir *os.File, name string) (*os.File, node, error) {
	f, err := openAt(dir, name, readFlags)
	if err != nil {
		return nil, node{}, err
	}
	n, err := statFile(f)
	if err == nil && !n.is(unix.S_IFREG) {
		err = ErrChanged
	}
	if err != nil {
		f.Close()
		return nil, node{}, err
	}
	return f, n, nil
}

// retry repeats a call that a signal or a rename elsewhere cut short; bounded,
// as a sandbox that renames all day could otherwise keep us here.
func retry(call func() (int, error)) (int, error) {
	for range 127 {
		if fd, err := call(); err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// node is what the kernel says about one entry at one moment.
type node struct {
	mode         uint32
	uid          uint32
	size         int64
	ino          uint64
	mtime        int64 // all times in nanoseconds
	ctime, btime int64 // btime 0 where the file system has none
	whiteoutDev  bool  // device number 0/0
}

func (n *node) is(typ uint32) bool { return n != nil && n.mode&unix.S_IFMT == typ }
func (n *node) isDir() bool        { return n.is(unix.S_IFDIR) }
func (n *node) stamp() Stamp       { return Stamp{n.ino, n.ctime} }

// taken is when the sandbox got this entry: its birth, which it cannot set, or
// where there is none its last change, which it can only move forward.
func (n *node) taken() int64 {
	if n.btime != 0 {
		return n.btime
	}
	return n.ctime
}

func statx(dir *os.File, name string, flags int) (node, error) {
	var st unix.Statx_t
	_, err := retry(func() (int, error) {
		return 0, unix.Statx(int(dir.Fd()), name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
			unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return node{}, err
	}
	n := node{
		mode: uint32(st.Mode), uid: st.Uid, size: int64(st.Size), ino: st.Ino,
		mtime: nanos(st.Mtime), ctime: nanos(st.Ctime),
		whiteoutDev: st.Rdev_major == 0 && st.Rdev_minor == 0,
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		n.btime = nanos(st.Btime)
	}
	return n, nil
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

func statAt(dir *os.File, name string) (node, error) { return statx(dir, name, 0) }
func statFile(f *os.File) (node, error)              { return statx(f, "", unix.AT_EMPTY_PATH) }

func mountID(f *os.File) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = errors.New("kernel tells no mount id (older than 5.8)")
	}
	return st.Mnt_id, err
}

// chmodFile changes the mode of an open directory, also one opened with O_PATH
// because its present mode lets us do no more than that.
func chmodFile(f *os.File, mode uint32) error {
	err := unix.Fchmodat(int(f.Fd()), "", mode, unix.AT_EMPTY_PATH) // fchmodat2, Linux 6.6
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EPERM || err == unix.EINVAL {
		// The magic link leads to the open file itself, not to a name.
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mode)
	}
	return err
}

// fileMode is st_mode in Go's terms.
func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	for bit, to := range map[uint32]fs.FileMode{
		unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky,
	} {
		if m&bit != 0 {
			mode |= to
		}
	}
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return mode
}

// readLink reads a symlink by name in an open directory.
func readLink(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
