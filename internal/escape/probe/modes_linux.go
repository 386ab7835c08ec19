package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const setID = unix.S_ISUID | unix.S_ISGID

// modes are attempts to leave a program behind that runs with more rights than its
// caller, or to start one.
var modes = map[string]func([]string) error{
	"chmod":     func(a []string) error { return unix.Chmod(a[0], 0o777) },
	"suid-file": setIDBit,
	"exec-suid": execSetID,
	"nnp":       noNewPrivs,
	"setcap":    setCapability,
}

// setIDBit makes a set-user-id file at a path, by one of the ways there are.
func setIDBit(a []string) error {
	way, path := a[0], a[1]
	if strings.Contains(way, "chmod") {
		if err := os.WriteFile(path, []byte(mark), 0o755); err != nil {
			return err
		}
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	at := func(fd int) uintptr { return uintptr(fd) }
	cwd := unix.AT_FDCWD
	const mode = setID | 0o755
	switch way {
	case "chmod":
		return bitSet(path, unix.Chmod(path, mode))
	case "chmod-high": // the filter sees 64 bits, the kernel 16
		_, _, no := unix.Syscall6(unix.SYS_FCHMODAT, at(cwd), uintptr(unsafe.Pointer(p)), mode|1<<40|1<<20, 0, 0, 0)
		return bitSet(path, failure(no))
	case "fchmod":
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return bitSet(path, unix.Fchmod(fd, mode))
	case "fchmodat2":
		_, _, no := unix.Syscall6(unix.SYS_FCHMODAT2, at(cwd), uintptr(unsafe.Pointer(p)), mode, 0, 0, 0)
		return bitSet(path, failure(no))
	case "open":
		return opened(unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode))
	case "creat":
		return oldCreat(path, mode)
	case "openat2":
		return opened(unix.Openat2(cwd, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY | unix.O_CLOEXEC, Mode: mode}))
	case "mknod":
		return unix.Mknod(path, unix.S_IFREG|mode, 0)
	case "tmpfile":
		fd, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(cwd, "/proc/self/fd/"+strconv.Itoa(fd), cwd, path, unix.AT_SYMLINK_FOLLOW)
	}
	return fact("no way " + way)
}

// bitSet looks whether a call that succeeded has set a bit.
func bitSet(path string, err error) error {
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat(path, &st)
	}
	if err == nil && st.Mode&setID == 0 {
		return fact("NO-BIT")
	}
	return err
}

func opened(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func failure(no unix.Errno) error {
	if no != 0 {
		return no
	}
	return nil
}

// execSetID starts a set-user-id copy of ourselves that says who it is.
func execSetID(a []string) error {
	out, err := exec.Command(a[0], "whoami").Output()
	if err != nil {
		return err
	}
	if string(bytes.TrimSpace(out)) == strconv.Itoa(unix.Getuid()) {
		return fact("SAME-USER")
	}
	note = "became " + string(bytes.TrimSpace(out))
	return nil
}

func noNewPrivs([]string) error {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	if set == 1 {
		return fact("NO-NEW-PRIVS")
	}
	return nil
}

// setCapability gives a new file CAP_SETUID, for all who execute it.
func setCapability(a []string) error {
	if err := os.WriteFile(a[0], []byte(mark), 0o755); err != nil {
		return err
	}
	// struct vfs_cap_data: revision 2 with the effective bit, permitted, inheritable.
	value := make([]byte, 20)
	value[0], value[3], value[4] = 1, 2, 1<<unix.CAP_SETUID
	return unix.Setxattr(a[0], "security.capability", value, 0)
}
