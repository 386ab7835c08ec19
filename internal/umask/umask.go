// Package umask knows which permissions the user leaves out of the files that he makes, so that
// programs in a sandbox leave out the same.
//
// The kernel tells a process its umask only in exchange for another one, and all threads share
// it: a file that one of them makes at that moment would have the wrong permissions. So this is
// done once, while the process is being initialised and has nothing else to do. (In /proc it can
// be read at any time, but that takes fifty times as long.) Package knock needs it, so nothing is
// imported but the system calls.
package umask

import "syscall"

// Usual is the one that programs have of which nobody says anything else.
const Usual = 0o022

// Most has all permissions in it.
const Most = 0o777

var own = read()

func read() uint16 {
	// If somebody makes a file after all, it is rather closed to others than open to them.
	old := syscall.Umask(0o077)
	syscall.Umask(old)
	return uint16(old) & Most
}

// Own is the umask that this process was started with, or nil if that is the usual one.
func Own() *uint16 {
	if own == Usual {
		return nil
	}
	mask := own
	return &mask
}
