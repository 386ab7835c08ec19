package tree

import "golang.org/x/sys/unix"

func statOf(st *unix.Stat_t) Stat {
	return Stat{Inode: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Changed: st.Ctim.Nano(), Mode: st.Mode}
}
