package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Seccomp installs the system call filter on the calling thread. The thread
// must have no_new_privs or CAP_SYS_ADMIN. Installing it a second time is
// harmless: a system call must pass all filters. It returns ErrUnsupported on
// a processor architecture for which there is no table.
//
// What the filter refuses fails with an error and nobody is killed: EPERM for
// system calls that exist and are forbidden; ENOSYS for those that the program
// should believe are missing, because then it takes another way (clone3,
// openat2), for those newer than our table, and for all calls of a foreign
// ABI (32-bit x86, x32, 32-bit ARM). Nothing is logged.
func Seccomp(o SeccompOptions) error {
	abi := native()
	if abi == nil {
		return fmt.Errorf("seccomp: %w", ErrUnsupported)
	}
	code := abi.filter(o)
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// No flags. TSYNC would confine the whole process. SPEC_ALLOW would
	// switch a mitigation off on those kernels (before Linux 5.16) that tie
	// it to seccomp, to gain speed that nobody asked for.
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: install filter: %w", errno)
	}
	return nil
}
