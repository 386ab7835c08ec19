package checkpoint

import "golang.org/x/sys/unix"

func statOf(st *unix.Stat_t) Stat {
	return Stat{Inode: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Changed: st.Ctim.Nano(), Mode: st.Mode}
}

// onTheWay are the flags for a directory that is only gone through.
const onTheWay = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
