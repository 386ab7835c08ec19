package main

import (
	"os"
	"unsafe"

	"github.com/cofferhq/coffer/internal/confine/int80"
	"golang.org/x/sys/unix"
)

// The doors that only this processor has.

// oldCreat is the system call of that name, which openat replaced elsewhere.
func oldCreat(path string, mode int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	fd, _, no := unix.Syscall(unix.SYS_CREAT, uintptr(unsafe.Pointer(p)), uintptr(mode), 0)
	return opened(int(fd), failure(no))
}

// compat32 asks who we are by the 32-bit door.
func compat32([]string) error {
	const getpid = 20
	got := int80.Call(getpid)
	if int(got) == os.Getpid() {
		return nil
	}
	return unix.Errno(-got)
}

// x32 asks by the door for 64-bit programs with short pointers.
func x32([]string) error {
	_, _, no := unix.RawSyscall(unix.SYS_GETPID|0x40000000, 0, 0, 0)
	return failure(no)
}
