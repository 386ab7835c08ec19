package ui

import (
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A process ends the way the program ended that it ran: by SIGINT, if that is how the user ended
// the program. A shell goes by that. The exit code 130 tells it that a program has dealt with
// Ctrl-C in its own way, and its loop or script goes on; only a child that SIGINT has ended tells
// it that the user wants none of the rest either.

// interrupted is what SIGINT ends with the program: nothing, this process, or its group.
var interrupted atomic.Int32

const (
	process int32 = 1 + iota
	group
)

// Interrupted notes that the user's SIGINT has ended the program, or this process before it had
// one. typed says that he pressed the key for it on a terminal that was in raw mode: then
// nobody else has heard of it, and those who wait for us, a script for example, shall.
func Interrupted(typed bool) {
	if typed {
		interrupted.Store(group)
	} else {
		interrupted.Store(process)
	}
}

// quits receives SIGQUIT until somebody hears it.
var quits = make(chan os.Signal, 1)

// QuitQuietly makes SIGQUIT end this process with the exit code a shell shows for it, without
// the dump of all goroutines that Go prints for Ctrl-\. [Hear] takes the signal over.
func QuitQuietly() {
	signal.Notify(quits, unix.SIGQUIT)
	go func() {
		<-quits
		os.Exit(128 + int(unix.SIGQUIT))
	}()
}

// Hear asks for signals, but for SIGINT and SIGHUP where this process was started to ignore
// them, as below nohup or in the background of a script: whoever did that wants the program to
// go on. (Of no other signal does Go know that.)
func Hear(c chan<- os.Signal, which ...os.Signal) {
	for _, s := range which {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
		if s == unix.SIGQUIT {
			signal.Stop(quits)
		}
	}
}

// Exit ends this process with an exit code, or by SIGINT, if the code says so and [Interrupted]
// was called.
func Exit(code int) {
	if whom := interrupted.Load(); whom != 0 && code == 128+int(unix.SIGINT) {
		signal.Reset(unix.SIGINT)
		if whom == process {
			_ = unix.Kill(unix.Getpid(), unix.SIGINT)
		} else {
			_ = unix.Kill(0, unix.SIGINT)
		}
		time.Sleep(100 * time.Millisecond) // if it ignores SIGINT, it goes on
	}
	os.Exit(code)
}
