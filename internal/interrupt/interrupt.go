// Package interrupt has this process end the way the program ended that it ran: by SIGINT,
// if that is how the user ended the program.
//
// A shell goes by that. The exit code 130 tells it that a program has dealt with Ctrl-C in
// its own way, and its loop or script goes on; only a child that SIGINT has ended tells it
// that the user wants none of the rest either.
package interrupt

import (
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// status is what a shell shows of a process that SIGINT has ended.
const status = 128 + int(unix.SIGINT)

// noted is whom SIGINT ends with the program: nobody, this process, or its group.
var noted atomic.Int32

const (
	nobody int32 = iota
	us
	group
)

// Note notes that the user's SIGINT has ended the program, or this process before it had
// one. typed says that he pressed the key for it on a terminal that was in raw mode: then
// nobody else has heard of it, and those who wait for us, a script for example, shall.
func Note(typed bool) {
	if typed {
		noted.Store(group)
	} else {
		noted.Store(us)
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

// Exit ends this process with an exit code, after everything else is done. If that says
// SIGINT, and so does what was noted, it is SIGINT that ends it.
func Exit(code int) {
	if code == status && noted.Load() != nobody {
		die(noted.Load() == group)
	}
	os.Exit(code)
}

// dieTime is how long it may take until a signal has ended us. If it has not by then, we
// were started to ignore it.
const dieTime = 100 * time.Millisecond

// die ends us by SIGINT, or returns.
func die(all bool) {
	signal.Reset(unix.SIGINT)
	whom := unix.Getpid()
	if all {
		whom = 0
	}
	_ = unix.Kill(whom, unix.SIGINT)
	time.Sleep(dieTime)
}
