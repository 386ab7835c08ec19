//go:build linux && !amd64

package steps

import (
	"syscall"
	"unsafe"
)

// Shared says whether processes share our memory: here they have a copy.
const Shared = false

// spawn starts a process that plays. It returns its id, or an error number below zero.
//
//go:nosplit
//go:norace
func spawn(args *cloneArgs, p *play) (pid uintptr) {
	pid, _, errno := syscall.RawSyscall(sysClone3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 {
		return -uintptr(errno)
	}
	if pid == 0 {
		p.run() // does not return
	}
	return pid
}
