package checkpoint

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// as does something as another user, as far as files are concerned; 0 is the caller. The
// kernel knows such an identity for each thread. A thread that cannot be had back its own
// is not used again.
func as(id int, do func() error) error {
	if id == 0 {
		return do()
	}
	runtime.LockOSThread()
	uid, gid := unix.Geteuid(), unix.Getegid()
	if err := become(id, id); err != nil {
		_ = become(uid, gid)
		return err // the thread stays locked, and ends with its goroutine
	}
	err := do()
	if back := become(uid, gid); back != nil {
		return back
	}
	runtime.UnlockOSThread()
	return err
}

func become(uid, gid int) error {
	if _, err := unix.SetfsgidRetGid(gid); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	// The calls never fail: they say what it was.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		return fmt.Errorf("become user %d for files", uid)
	}
	return nil
}

func statOf(st *unix.Stat_t) Stat {
	return Stat{Inode: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Changed: st.Ctim.Nano(), Mode: st.Mode}
}

// onTheWay are the flags for a directory that is only gone through.
const onTheWay = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
