package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// To remove a directory takes a file system twenty times as long as to move it, and to make or
// remove a file as long as twenty links to one. So what took a name is kept when a jail ends,
// in the user's state directory, if that is on the same file system: directories are moved
// there, and the next jail moves them back; files stay there, and are linked to.
//
// Who has opened one can write to it wherever it is: a program in another jail or sandbox, if
// the context is within its reach too. So all are kept for one context, and a directory for its
// name, where such a program could have written anyway, and never used for another.

// kept is where that of one context is, open. All this is in the way of a program
// that starts or has ended, so it is done with as few calls as can be.
type kept int

const (
	mostContexts = 32 // for which something is kept
	inDirectory  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// nowhere is where nothing is kept.
const nowhere kept = -1

// openKept opens the place for a context, if there is one or it can be made.
func openKept(store string, context int, create bool) kept {
	var st unix.Statx_t
	err := unix.Statx(context, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	// Without the time of its birth a directory could be taken for one that had its number before.
	if err != nil || store == "" || st.Mask&unix.STATX_BTIME == 0 {
		return nowhere
	}
	top, err := unix.Open(store, inDirectory, 0)
	if errors.Is(err, fs.ErrNotExist) && create && makeStore(store) {
		top, err = unix.Open(store, inDirectory, 0)
	}
	if err != nil {
		return nowhere
	}
	defer unix.Close(top)
	if !ownAlone(top) {
		return nowhere
	}
	name := fmt.Sprintf("%x.%x-%x-%x.%x", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
	fd, err := unix.Openat(top, name, inDirectory, 0)
	if errors.Is(err, fs.ErrNotExist) && create && makeRoom(store) {
		_ = unix.Mkdirat(top, name, 0o700)
		fd, err = unix.Openat(top, name, inDirectory, 0)
	}
	if err != nil {
		return nowhere
	}
	if !ownAlone(fd) {
		unix.Close(fd)
		return nowhere
	}
	return kept(fd)
}

// makeStore makes the store, in a place that is the user's own: root may have another's home.
func makeStore(store string) bool {
	above := filepath.Dir(store)
	for {
		var st unix.Stat_t
		if err := unix.Stat(above, &st); err == nil {
			return int(st.Uid) == os.Geteuid() && os.MkdirAll(store, 0o700) == nil
		}
		if above == filepath.Dir(above) {
			return false
		}
		above = filepath.Dir(above)
	}
}

// ownAlone says whether nobody but this user can write to a directory.
func ownAlone(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0
}

// makeRoom removes those of the contexts that were not used for longest, if there are too many,
// and says whether there is room for one more.
func makeRoom(store string) bool {
	found, err := os.ReadDir(store)
	if err != nil {
		return false
	}
	var list []fs.FileInfo
	for _, e := range found {
		if info, err := e.Info(); err == nil && info.IsDir() {
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	room := mostContexts - len(found)
	for _, info := range list {
		if room > 0 {
			break
		}
		if forget(filepath.Join(store, info.Name())) {
			room++
		}
	}
	return room > 0
}

// forget removes what is kept for a context, unless somebody has put something into it.
func forget(dir string) bool {
	found, _ := os.ReadDir(dir)
	for _, f := range found {
		if path := filepath.Join(dir, f.Name()); f.IsDir() {
			_ = unix.Rmdir(path)
		} else {
			_ = unix.Unlink(path)
		}
	}
	return unix.Rmdir(dir) == nil
}

// take moves a directory to where its name is to be taken.
func (k kept) take(context int, name string) bool {
	fd, err := unix.Openat(int(k), name, inDirectory, 0)
	if k == nowhere || err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode == unix.S_IFDIR|0o1755 && int(st.Uid) == os.Geteuid() &&
		empty(fd) && move(int(k), context, name) == nil
}

// keep moves a directory that took a name, and is open, to where it is kept. If it is not the one
// that was looked at, or somebody has put something into it meanwhile, it goes back.
func (k kept) keep(context int, name string, dir int, number uint64) bool {
	if k == nowhere || move(context, int(k), name) != nil {
		return false
	}
	var is unix.Stat_t
	same := unix.Fstatat(int(k), name, &is, unix.AT_SYMLINK_NOFOLLOW) == nil && is.Ino == number
	if _, err := unix.Seek(dir, 0, 0); same && err == nil && empty(dir) {
		return true
	}
	_ = move(int(k), context, name)
	return !same
}

// link gives a name to the file that was kept for it, if it says what it should.
func (k kept) link(path, content string) error {
	fd, err := unix.Openat(int(k), filepath.Base(path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if k == nowhere || err != nil {
		return fs.ErrInvalid
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	said := make([]byte, len(content)+1)
	n, err := unix.Read(fd, said)
	if err != nil || string(said[:n]) != content || unix.Fstat(fd, &st) != nil || st.Mode != unix.S_IFREG|0o444 || int(st.Uid) != os.Geteuid() {
		_ = unix.Unlinkat(int(k), filepath.Base(path), 0)
		return fs.ErrInvalid
	}
	return unix.Linkat(int(k), filepath.Base(path), unix.AT_FDCWD, path, 0)
}

// keepFile keeps a file that took a name, unless there is one already.
func (k kept) keepFile(path string) {
	if k != nowhere {
		_ = unix.Linkat(unix.AT_FDCWD, path, int(k), filepath.Base(path), 0)
	}
}

func (k kept) close() {
	if k != nowhere {
		unix.Close(int(k))
	}
}

// move moves an entry of a directory to another one, where there must be none of its name.
func move(from, to int, name string) error {
	return unix.Renameat2(from, name, to, name, unix.RENAME_NOREPLACE)
}

// empty says whether there is nothing in a directory that was just opened.
func empty(dir int) bool {
	var buf [1024]byte // for three entries at least, of which two do not count
	n, err := unix.Getdents(dir, buf[:])
	if err != nil {
		return false
	}
	_, count, _ := unix.ParseDirent(buf[:n], 1, nil)
	return count == 0
}
