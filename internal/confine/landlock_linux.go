package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights that change a file system. Rights to read and to execute are not
// handled by our rulesets at all, so Landlock never looks at them and reading
// costs nothing. Later ABIs also know rights on the network and on signals and
// sockets; namespaces do that job here, and "scoping" signals would keep a
// shell from stopping what it started in another Landlock domain.
const (
	landlockMake = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	landlockRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE

	// The kernel refuses a rule for something that is not a directory when
	// it has any other right.
	landlockFileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
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
// terminal is nothing without ioctl). Reading and executing stay as they were,
// and so do files that are open already. It returns ErrUnsupported when the
// kernel has no Landlock.
//
// What it cannot do: changing the mode, owner, times or extended attributes of
// a file is no right Landlock knows. Before ABI 3 (Linux 6.2) truncate(2) is
// not restricted. On ABI 1 (before Linux 5.19) files cannot be moved from one
// directory to another even inside Write. On every ABI the thread can no
// longer mount or unmount, and it cannot trace processes that were started
// under another call of Landlock.
func Landlock(r LandlockRules) error {
	abi := LandlockABI()
	if abi == 0 {
		return fmt.Errorf("landlock: %w", ErrUnsupported)
	}
	handled := landlockRights(abi)
	ruleset, err := createRuleset(handled)
	if err != nil {
		return fmt.Errorf("landlock: create ruleset: %w", err)
	}
	defer unix.Close(ruleset)
	for _, path := range r.Write {
		if err := allowBeneath(ruleset, path, handled); err != nil {
			return fmt.Errorf("landlock: allow writing %s: %w", path, err)
		}
	}
	if ioctl := handled & unix.LANDLOCK_ACCESS_FS_IOCTL_DEV; ioctl != 0 {
		if err := allowBeneath(ruleset, "/dev", ioctl); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("landlock: allow ioctl beneath /dev: %w", err)
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), landlockFlags(abi), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: restrict thread: %w", errno)
	}
	return nil
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

func createRuleset(handled uint64) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	// Only the first field is passed: it is all that ABI 1 knows, and all
	// that is set.
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil // close-on-exec, the kernel sees to it
}

// allowBeneath grants the rights on path and, for a directory, beneath it.
func allowBeneath(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
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
