package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restless goes on for seconds though it is stopped, by timers that send it SIGCONT, and does what
// keeps busy who watches the directory it is in. Where nobody stops it, it does so itself.
func restless(a []string) error {
	signal.Notify(make(chan os.Signal, 1), unix.SIGCONT) // a signal that nobody handles would be sent once
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: int32(unix.SIGCONT)}
	for i := range 500 {
		var timer int32
		if _, _, err := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer))); err != 0 {
			return err
		}
		soon := unix.NsecToTimespec(int64(i+10) * 1e6)
		spec := [2]unix.Timespec{soon, soon}
		if _, _, err := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); err != 0 {
			return err
		}
	}
	if len(a) > 0 {
		if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("busy/a", 0o755); err != nil {
		return err
	}
	for i := range 300 {
		if err := os.WriteFile(fmt.Sprintf("busy/a/%d", i), nil, 0o644); err != nil {
			return err
		}
	}
	long := wait
	if len(a) > 0 {
		long = time.Second // nobody ends it, and that it goes on is all there is to see
	}
	for end := time.Now().Add(long); time.Now().Before(end); {
		for range 100 {
			_ = os.Rename("busy/a", "busy/b")
			_ = os.Rename("busy/b", "busy/a")
		}
	}
	return nil
}
