//go:build linux && !amd64

package jail

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// inMemory is nothing: here a process has a copy of our memory.
const inMemory = 0

// spawn starts a process that plays. It returns its id, or an error number below zero.
//
//go:nosplit
//go:norace
func spawn(args *cloneArgs, p *play) (pid uintptr) {
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 {
		return -uintptr(errno)
	}
	if pid == 0 {
		p.run() // does not return
	}
	return pid
}
