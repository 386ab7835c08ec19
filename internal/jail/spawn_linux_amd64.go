package jail

import "golang.org/x/sys/unix"

// A process that was forked has a copy of our memory, and from then on every page that we
// write to is copied as well, each time with a word to all processors: that takes longer
// than all that the process does. So it shares the memory until it becomes the program.
const inMemory = unix.CLONE_VM

// spawn starts a process that plays, on the stack that args name. It returns its id, or an
// error number below zero.
//
//go:noescape
func spawn(args *cloneArgs, p *play) (pid uintptr)
