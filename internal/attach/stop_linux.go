package attach

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stopGroup stops us and those who wait for us in our group, scripts for example, as the
// terminal does at Ctrl-Z. It returns when we go on, or false if we have not been stopped.
//
// For a moment the signal does what it does by default. The signal package cannot do that
// once it has listened to it; SIGSTOP, which needs no such thing, would stop us for ever
// where there is no shell.
func stopGroup(went <-chan struct{}) (resumed bool) {
	var standard, ours [64]byte // struct sigaction, as the kernel has it
	action := func(to, was *[64]byte) {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
	}
	action(&standard, &ours)
	_ = unix.Kill(0, unix.SIGTSTP)
	select {
	case <-went:
		resumed = true
	case <-time.After(stopTime):
	}
	action(&ours, nil)
	return resumed
}
