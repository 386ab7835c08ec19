//go:build !linux

package checkpoint

import "golang.org/x/sys/unix"

// as is for views that there are on Linux alone.
func as(_ int, do func() error) error { return do() }

func statOf(st *unix.Stat_t) Stat {
	return Stat{Inode: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Changed: st.Ctim.Nano(), Mode: uint32(st.Mode)}
}

// onTheWay are the flags for a directory that is only gone through.
const onTheWay = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
