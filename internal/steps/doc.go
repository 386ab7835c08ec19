// Package steps has a new process make a list of system calls before it becomes a program.
//
// A user namespace can be made only by a process with one thread, and a Go program never is
// one. The usual way around is to start the program's own binary a second time, in the
// namespaces; that costs a second start of a Go runtime, more than all else together. So
// here everything is decided beforehand, in ordinary Go, and the new process has nothing to
// do but to make the calls.
//
// A process that was forked would have a copy of our memory, and from then on every page
// that we write to would be copied as well, each time with a word to all processors: that
// takes longer than all that the process does. So, where we know how, it shares the memory
// until it becomes the program. It is unknown to the Go runtime there: it must not
// allocate, grow its stack, or wait for anybody. A few functions in play_linux.go are all
// the Go that it runs, on a stack of its own.
//
// This package is used while others are initialised, and so depends on little.
package steps
