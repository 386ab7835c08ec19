package guest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Foreign is the first of the host ids that a sandbox of host root uses. It lies
// above what distributions give to users, services, subordinate ranges and systemd.
const Foreign = 0x70000000

// full is how many ids a complete sandbox has.
const full = 65536

// IDs is who exists inside.
type IDs struct {
	UID, GID int // the user's, inside
	Count    int // ids from 0 up that are mapped; 1 when it is the user's alone
	UIDs     []syscall.SysProcIDMap
	GIDs     []syscall.SysProcIDMap
	Helper   bool // the maps must be written by newuidmap and newgidmap
	Shift    bool // the caller is root of the host
}

// Whoever decides the ids for the calling user.
func Whoever() IDs {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: Foreign, Size: full}}
		return IDs{Count: full, UIDs: m, GIDs: m, Shift: true}
	}
	if u, g, ok := subordinate(uid); ok {
		return IDs{UID: uid, GID: gid, Count: full, Helper: true, UIDs: around(uid, u), GIDs: around(gid, g)}
	}
	return IDs{UID: uid, GID: gid, Count: 1,
		UIDs: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GIDs: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
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

// subordinate finds the user's ranges, if the programs that grant them are here, and get the
// rights for that from the kernel.
func subordinate(uid int) (u, g int, ok bool) {
	const getNoNewPrivs = 39
	if no, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, getNoNewPrivs, 0, 0); no == 1 {
		return 0, 0, false
	}
	for _, p := range []string{"newuidmap", "newgidmap"} {
		if _, err := HelperPath(p); err != nil {
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

// HelperPath finds a set-user-id helper in the system's own directories: PATH is the
// caller's, and a workspace may be in it. It must belong to root as seen from here: in a
// container without root of the host, the kernel gives nobody what it promises.
func HelperPath(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin", "/run/wrappers/bin"} {
		if info, err := os.Stat(dir + "/" + name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && info.Sys().(*syscall.Stat_t).Uid == 0 {
			return dir + "/" + name, nil
		}
	}
	return "", errors.New("it is in none of the system's directories")
}

// subRange finds a range of at least 65536 ids for the user in a file of lines
// "name-or-uid:first:count".
func subRange(file, name string, uid int) (first int, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] != strconv.Itoa(uid) && (name == "" || fields[0] != name) {
			continue
		}
		from, err1 := strconv.Atoi(fields[1])
		n, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && from > 0 && n >= full {
			return from, true
		}
	}
	return 0, false
}
