package gitbridge

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cofferhq/coffer/internal/gitbridge/index"
	"github.com/cofferhq/coffer/internal/tree"
	"golang.org/x/sys/unix"
)

// maxNamed bounds how much of files is read.
const maxNamed = 64 << 20

// files are those of a worktree, which a stranger writes: no link is followed.
type files struct {
	top    *tree.Dir
	format string
	left   int64

	dir *tree.Dir // the last one that was looked into, or nil
	at  string
}

func (f *files) close() {
	if f.dir != nil {
		f.dir.Close()
	}
	f.top.Close()
}

// find opens the directory of a path, unless it is the last one's.
func (f *files) find(name string) (dir *tree.Dir, base string, err error) {
	at, base := path.Split(name)
	if f.dir == nil || f.at != at {
		dir, _, err := f.top.Find(name)
		if err != nil {
			return nil, "", err
		}
		if f.dir != nil {
			f.dir.Close()
		}
		f.dir, f.at = dir, at
	}
	return f.dir, base, nil
}

// Stat is part of index.Files.
func (f *files) Stat(name string) (s index.Stat, ok bool) {
	dir, base, err := f.find(name)
	if err != nil {
		return s, false
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir.FD(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return s, false
	}
	s = statOf(&st)
	return s, s.Mode != 0
}

func statOf(st *unix.Stat_t) index.Stat {
	s := index.Stat{
		ChangedSec: uint32(st.Ctim.Sec), ChangedNsec: uint32(st.Ctim.Nsec), MtimeSec: uint32(st.Mtim.Sec), MtimeNsec: uint32(st.Mtim.Nsec),
		Dev: uint32(st.Dev), Inode: uint32(st.Ino), UID: st.Uid, GID: st.Gid, Size: uint32(st.Size),
	}
	if s.Size == 0 && st.Size != 0 {
		s.Size = 1 << 31
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		s.Mode = tree.Symlink
	case st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o100 != 0:
		s.Mode = tree.Executable
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		s.Mode = tree.Regular
	}
	return s
}

// Name is part of index.Files.
func (f *files) Name(name string) (id string, s index.Stat, err error) {
	dir, base, err := f.find(name)
	if err != nil {
		return "", s, err
	}
	s, _ = f.Stat(name)
	if s.Mode == tree.Symlink {
		text, err := dir.Link(base)
		if err != nil {
			return "", s, err
		}
		id, err = tree.Name(f.format, strings.NewReader(text), int64(len(text)), nil)
		if now, _ := f.Stat(name); err == nil && now != s {
			err = tree.ErrBusy
		}
		return raw(id), s, err
	}
	file, _, err := dir.Open(base)
	if err != nil {
		return "", s, err
	}
	defer file.Close()
	var st [2]unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st[0]); err != nil {
		return "", s, err
	}
	// What is counted is what is read: meanwhile it may grow to any size.
	if f.left -= st[0].Size; f.left < 0 {
		return "", s, fmt.Errorf("%w: it is of large files", index.ErrUnusual)
	}
	id, err = tree.Name(f.format, file, st[0].Size, nil)
	if err = errors.Join(err, unix.Fstat(int(file.Fd()), &st[1])); err == nil && statOf(&st[0]) != statOf(&st[1]) {
		err = tree.ErrBusy
	}
	return raw(id), statOf(&st[0]), err
}

func raw(id string) string {
	b, _ := hex.DecodeString(id)
	return string(b)
}
