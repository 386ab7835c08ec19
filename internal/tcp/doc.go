// Package tcp is TCP for whoever carries other people's connections.
//
// Package net does all of this too. But its calls to the kernel are those of package syscall, which
// tell Go's scheduler of each, in case it takes long. The first after a pause wakes a thread that
// watches over such calls: another thread to be scheduled in the middle of every
// connection, and measured a fifth of the processor time of a supervisor that carries short
// ones. Here sockets never block, so nobody need be told. Waiting is left to Go's
// poller, by way of package os.
//
// Further, a dial has no goroutine that waits for its context, and one that succeeds at once (to
// this machine) does not wait at all.
//
// Outside Linux it is package net.
package tcp
