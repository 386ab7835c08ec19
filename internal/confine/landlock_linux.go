package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights that change a file system. Unless the caller asks for it, rights to
// read and to execute are not handled by a ruleset at all, so Landlock never looks
// at them and reading costs nothing. Nor are the later rights on the network, on
// signals and on sockets: in a sandbox with namespaces these do that job, and
// "scoping" signals would keep a shell from stopping what it started in another
// Landlock domain.
const (
	landlockMake = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE

	// The kernel refuses a rule for something that is not a directory when
	// it has any other right.
	landlockFileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE

	landlockRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_DIR
)

// LandlockABI is the version of Landlock in the running kernel, 0 if there is
// none or it was not enabled at boot.
func LandlockABI() int {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// Landlock denies the calling thread every write outside r.Write: opening for
// writing, creating, removing, renaming, truncating, and controlling device
// files (except that devices beneath /dev stay controllable, because a
// terminal is nothing without ioctl). Reading and executing stay as they were
// unless r.Read says otherwise, and so do files that are open already. It returns
// ErrUnsupported when the kernel has no Landlock.
//
// What it cannot do: changing the mode, owner, times or extended attributes of
// a file is no right Landlock knows. Before ABI 3 (Linux 6.2) truncate(2) is
// not restricted. On ABI 1 (before Linux 5.19) files cannot be moved from one
// directory to another even inside Write. On every ABI the thread can no
// longer mount or unmount, and it cannot trace processes that were started
// under another call of Landlock, or under none. What the fields of r name an ABI
// for is left out on an older one: the caller has to know.
func Landlock(r LandlockRules) error {
	abi := LandlockABI()
	if r.ABI > 0 {
		abi = min(abi, r.ABI)
	}
	if abi == 0 {
		return fmt.Errorf("landlock: %w", ErrUnsupported)
	}
	attr := r.handled(abi)
	ruleset, err := createRuleset(attr)
	if err != nil {
		return fmt.Errorf("landlock: create ruleset: %w", err)
	}
	defer unix.Close(ruleset)
	if err := r.allowPaths(ruleset, attr.Handled_access_fs, landlockRights(abi)); err != nil {
		return err
	}
	if attr.Handled_access_net != 0 {
		if err := r.allowPorts(ruleset); err != nil {
			return err
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), landlockFlags(abi), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: restrict thread: %w", errno)
	}
	return nil
}

// ruleNetPort is LANDLOCK_RULE_NET_PORT.
const ruleNetPort = 2

// allowPorts adds rules for connecting.
func (r *LandlockRules) allowPorts(ruleset int) error {
	for _, p := range r.Ports {
		for port := uint64(p.First); port <= uint64(p.Last); port++ {
			attr := struct{ allowed, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, port}
			_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleNetPort, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
			if errno != 0 {
				return fmt.Errorf("landlock: allow port %d: %w", port, errno)
			}
		}
	}
	return nil
}

// allowPaths adds rules for files.
func (r *LandlockRules) allowPaths(ruleset int, handled, write uint64) error {
	read := handled & landlockRead
	for _, group := range []struct {
		what   string
		paths  []string
		rights uint64
	}{
		{"writing", r.Write, write},
		{"reading", r.Read, read},
		{"listing", r.List, read & unix.LANDLOCK_ACCESS_FS_READ_DIR},
	} {
		if group.rights == 0 {
			continue
		}
		for _, path := range group.paths {
			if err := allowBeneath(ruleset, path, group.rights, r.NoLinks); err != nil {
				return fmt.Errorf("landlock: allow %s %s: %w", group.what, path, err)
			}
		}
	}
	if ioctl := handled & unix.LANDLOCK_ACCESS_FS_IOCTL_DEV; ioctl != 0 {
		if err := allowBeneath(ruleset, "/dev", ioctl, false); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("landlock: allow ioctl beneath /dev: %w", err)
		}
	}
	return nil
}

// handled is what a ruleset denies unless one of its rules allows it.
func (r *LandlockRules) handled(abi int) *unix.LandlockRulesetAttr {
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: landlockRights(abi)}
	if len(r.Read) > 0 {
		attr.Handled_access_fs |= landlockRead
	}
	if r.NoPorts && abi >= 4 { // Linux 6.7
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if r.NoPorts && abi >= 10 {
		attr.Handled_access_net |= unix.LANDLOCK_ACCESS_NET_BIND_UDP | unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP
	}
	if r.Scoped && abi >= 6 { // Linux 6.12
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if r.NoSockets && abi >= 9 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	return attr
}

// landlockRights is every right to change something that the ABI knows.
func landlockRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE | landlockMake | landlockRemove)
	if abi >= 2 { // Linux 5.19
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 { // Linux 6.2
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 { // Linux 6.10
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// landlockFlags keeps denials out of the host's audit log, which a program
// inside could otherwise flood.
func landlockFlags(abi int) uintptr {
	if abi < 7 { // Linux 6.15; before it nothing is logged
		return 0
	}
	return unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF | unix.LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF
}

func createRuleset(attr *unix.LandlockRulesetAttr) (int, error) {
	// Only the fields up to the last that is set are passed: an older kernel does
	// not know the others.
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if attr.Handled_access_net != 0 {
		size = unsafe.Offsetof(attr.Scoped)
	}
	if attr.Scoped != 0 {
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil // close-on-exec, the kernel sees to it
}

// allowBeneath grants the rights on path and, for a directory, beneath it.
func allowBeneath(ruleset int, path string, rights uint64, noLinks bool) error {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if noLinks {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, how)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= landlockFileRights
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
