package container

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// foreign is the first of the host ids that a sandbox of host root uses. It lies
// above what distributions give to users, services, subordinate ranges and systemd.
const foreign = 0x70000000

// full is how many ids a complete sandbox has.
const full = 65536

// ids is who exists inside.
type ids struct {
	uid, gid int // the user's, inside
	count    int // ids from 0 up that are mapped; 1 when it is the user's alone
	uids     []syscall.SysProcIDMap
	gids     []syscall.SysProcIDMap
	helper   bool // the maps must be written by newuidmap and newgidmap
	shift    bool // the caller is root of the host
}

// whoever decides the ids for the calling user.
func whoever() ids {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: foreign, Size: full}}
		return ids{count: full, uids: m, gids: m, shift: true}
	}
	if u, g, ok := subordinate(uid); ok {
		return ids{uid: uid, gid: gid, count: full, helper: true, uids: around(uid, u), gids: around(gid, g)}
	}
	return ids{uid: uid, gid: gid, count: 1,
		uids: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		gids: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
	}
}

// around maps 0 to 65535 to a range, with the user's own id left in place.
func around(self, first int) []syscall.SysProcIDMap {
	m := []syscall.SysProcIDMap{{ContainerID: self, HostID: self, Size: 1}}
	if self >= full {
		return append(m, syscall.SysProcIDMap{ContainerID: 0, HostID: first, Size: full})
	}
	if self > 0 {
		m = append(m, syscall.SysProcIDMap{ContainerID: 0, HostID: first, Size: self})
	}
	if self+1 < full {
		m = append(m, syscall.SysProcIDMap{ContainerID: self + 1, HostID: first + self, Size: full - self - 1})
	}
	return m
}

// subordinate finds the user's ranges, if the programs that grant them are here.
func subordinate(uid int) (u, g int, ok bool) {
	for _, p := range []string{"newuidmap", "newgidmap"} {
		if _, err := helperPath(p); err != nil {
			return 0, 0, false
		}
	}
	name := ""
	if me, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = me.Username
	}
	u, ok = subRange("/etc/subuid", name, uid)
	if !ok {
		return 0, 0, false
	}
	g, ok = subRange("/etc/subgid", name, uid)
	return u, g, ok
}

// helperPath finds a set-user-id helper in the system's own directories: PATH is the
// caller's, and a workspace may be in it.
func helperPath(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin", "/run/wrappers/bin"} {
		if info, err := os.Stat(dir + "/" + name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return dir + "/" + name, nil
		}
	}
	return "", exec.ErrNotFound
}

// subRange finds a range of at least 65536 ids for the user in a file of lines
// "name-or-uid:first:count".
func subRange(file, name string, uid int) (first int, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Split(strings.TrimSpace(s.Text()), ":")
		if len(fields) != 3 || fields[0] != strconv.Itoa(uid) && (name == "" || fields[0] != name) {
			continue
		}
		first, err1 := strconv.Atoi(fields[1])
		n, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && first > 0 && n >= full {
			return first, true
		}
	}
	return 0, false
}

// grant has the helpers write the maps of a process that waits for them.
func (i ids) grant(pid int) error {
	var both sync.WaitGroup
	var failed [2]error
	for n, job := range []struct {
		program string
		maps    []syscall.SysProcIDMap
	}{{"newuidmap", i.uids}, {"newgidmap", i.gids}} {
		both.Go(func() {
			path, err := helperPath(job.program)
			if err != nil {
				failed[n] = err
				return
			}
			args := []string{strconv.Itoa(pid)}
			for _, m := range job.maps {
				args = append(args, strconv.Itoa(m.ContainerID), strconv.Itoa(m.HostID), strconv.Itoa(m.Size))
			}
			if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
				failed[n] = fmt.Errorf("%s: %w: %s", job.program, err, strings.TrimSpace(string(out)))
			}
		})
	}
	both.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
