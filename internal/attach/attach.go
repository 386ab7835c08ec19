// Package attach joins a program in a sandbox to the terminal, or the pipes, of the
// command that asked for it.
//
// On a terminal the program gets one of its own inside, ours goes into raw mode, and
// what the program prints passes a filter: see package terminal. Whatever happens,
// the terminal is put back as it was. Without one, the three descriptors stay apart
// and their bytes untouched, except where one of them happens to be a terminal.
package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// Options are the user's choices.
type Options struct {
	// Clipboard lets programs write to the terminal's clipboard.
	Clipboard bool
	// Unfiltered passes output as it is, for use inside a sandbox, where the
	// terminal is not the user's.
	Unfiltered bool
	// Stop ends the sandbox when the user insists, with signals, on leaving.
	// Without it, the program is hung up on: [ErrInsisted]. One that is kept is left.
	Stop func()
	// Notices are lines for the user, shown when the terminal is free for them.
	Notices Notices
	// Last, if set, is told what the supervisor says when the program has ended. There
	// may be nothing, but it is waited for.
	Last func(line string)
	// Keep, on a terminal, lets the program outlive us: the user may leave it with
	// [LeaveKeys], or lose the terminal, and come back with [Join].
	Keep bool
	// TakeOver, if set, returns where signals came that would have cancelled Run's
	// context so far. From then on they are the program's.
	TakeOver func() chan os.Signal
}

// Run runs a program and returns how it ended. early is cancelled by a signal that came
// before we could pass it on. [wire.ErrGone] with nothing consumed is [ErrNotStarted].
func Run(early context.Context, o wire.Opener, e wire.Exec, opts Options) (exit wire.Exit, err error) {
	// In the background of a shell, who touches the terminal is stopped.
	aside := terminal.IsTerminal(0) && inBackground()
	onTerminal := !aside && terminal.IsTerminal(0) && terminal.IsTerminal(1)
	if onTerminal {
		e.TTY, e.Apart = size(), !opts.Keep && !terminal.IsTerminal(2)
	} else {
		e.NoInput = aside || isNull(os.Stdin)
		e.Merged = same(os.Stdout, os.Stderr)
	}
	e.Keep = onTerminal && opts.Keep
	p, err := wire.Start(o, e)
	if err != nil {
		return exit, notStarted(early, err)
	}
	return carry(early, p, e, onTerminal, opts)
}

// Join joins our terminal to a program that was kept, and returns how it ended, or that
// the user has left it: [ErrLeft].
func Join(early context.Context, o wire.Opener, opts Options) (exit wire.Exit, err error) {
	p, err := wire.Join(o, *size())
	if err != nil {
		return exit, err
	}
	return carry(early, p, wire.Exec{Keep: true}, true, opts)
}

// carry passes everything on between a program that was asked for and us.
func carry(early context.Context, p *wire.Process, e wire.Exec, onTerminal bool, opts Options) (exit wire.Exit, err error) {
	defer p.Close()
	if err := waitStart(early, p, e.Root); err != nil {
		return exit, err
	}
	f := &forwarder{p: p, opts: opts, ready: make(chan struct{})}
	if e.Keep {
		f.leave = &leaver{p: p}
	}
	if onTerminal {
		f.console = &console{p: p, leave: f.leave, opts: opts}
		f.console.away.went = make(chan struct{}, 1)
		p.Stopped = f.console.stopped
	} else {
		p.Stopped = func() {} // which it never says of one without a terminal
	}
	if opts.TakeOver == nil {
		f.signals = make(chan os.Signal, 16)
	} else if f.signals = opts.TakeOver(); early.Err() != nil {
		return exit, context.Cause(early)
	}
	go f.run()
	if onTerminal {
		<-f.ready // a signal must not end us while the terminal is raw
		exit, err = f.console.run(e.Apart)
	} else {
		exit, err = runPipes(p, e.NoInput, f.ready, opts)
	}
	if f.leave.left() {
		return exit, ErrLeft
	}
	if err != nil && f.insisted.Load() {
		return exit, ErrInsisted
	}
	if exit.Signal == unix.SIGINT && (onTerminal || f.interrupted.Load()) {
		ui.Interrupted(onTerminal && f.console.pressed.Load())
	}
	if err == nil && opts.Last != nil {
		p.Last(opts.Last)
	}
	return exit, err
}

// isNull says whether a file is the null device, from which nothing will ever come. It
// is what scripts and services usually have, and then there is less to carry.
func isNull(f *os.File) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(have, null)
}

// same says whether two of our descriptors lead to the same place, as after 2>&1: then what a
// program prints to them stays in the order in which it does.
func same(a, b *os.File) bool {
	first, err := a.Stat()
	if err != nil {
		return false
	}
	second, err := b.Stat()
	return err == nil && os.SameFile(first, second)
}

// ErrNotStarted says that the program was never started, and no input read: it can be
// tried again.
var ErrNotStarted = errors.New("the program was not started")

// ErrInsisted says that the user has asked the program to end three times, and has not waited
// for it any longer: it has been hung up on, and a second later the guest kills it.
var ErrInsisted = errors.New("you asked three times: the program is being killed")

// waitStart waits for the program. The first one as root takes a while, about
// which something is said. Until then a signal ends us, as it ends any process that has
// said nothing else, and the program is hung up on.
func waitStart(early context.Context, p *wire.Process, root bool) error {
	if root {
		defer ui.Busy("making the system writable for root")()
	}
	if early.Done() == nil {
		return startError(early, p.WaitStart())
	}
	started := make(chan error, 1)
	go func() { started <- p.WaitStart() }()
	select {
	case err := <-started:
		return startError(early, err)
	case <-early.Done():
		return context.Cause(early)
	}
}

func startError(early context.Context, err error) error {
	if errors.Is(err, wire.ErrGone) {
		return notStarted(early, err)
	}
	return err
}

// notStarted is about a program that could not be started. If the user gave up, that is
// why.
func notStarted(early context.Context, err error) error {
	if early.Err() != nil {
		return context.Cause(early)
	}
	return fmt.Errorf("%w: %w", ErrNotStarted, err)
}

// ends says whether a signal is one by which users end programs.
func ends(n syscall.Signal) bool {
	return n == unix.SIGINT || n == unix.SIGTERM || n == unix.SIGHUP || n == unix.SIGQUIT
}

// runPipes passes the three descriptors on. Nothing is read or shown before ready: who
// sees a program at work may send it a signal.
func runPipes(p *wire.Process, noInput bool, ready <-chan struct{}, opts Options) (exit wire.Exit, err error) {
	if !noInput {
		go func() {
			<-ready
			io.Copy(p, os.Stdin)
			_ = p.CloseInput()
		}()
	}
	stdout, finish := sink(os.Stdout, ready, opts)
	defer finish()
	stderr, finish := sink(os.Stderr, ready, opts)
	defer finish()
	if opts.Notices != nil {
		say := &announcer{to: stderr, plain: os.Stderr}
		stderr = say
		hush := opts.Notices.Watch(say.announce)
		defer func() { hush(err != nil || exit.Status() != 0) }()
	}
	out, errs := &noted{Writer: stdout}, &noted{Writer: stderr}
	exit, err = p.Wait(out, errs)
	if err == nil && exit.Status() == 0 {
		err = cmp.Or(out.lost(), errs.lost())
	}
	return exit, err
}

// sink is one of our descriptors, behind the filter if it is a terminal.
func sink(to *os.File, ready <-chan struct{}, opts Options) (w io.Writer, finish func()) {
	if !opts.Unfiltered && terminal.IsTerminal(int(to.Fd())) {
		f := terminal.NewFilter(to, terminal.Options{ClipboardWrite: opts.Clipboard, Unheard: true})
		return &late{f, ready}, func() {
			f.Close()
			_, _ = to.Write(f.Undo())
		}
	}
	return &late{descriptor(to.Fd()), ready}, func() {}
}

// late is a writer that can be written to when something is ready.
type late struct {
	io.Writer
	ready <-chan struct{}
}

func (l *late) Write(p []byte) (int, error) {
	<-l.ready
	return l.Writer.Write(p)
}

// noted is a writer for what a program prints, which gets no more once it has failed.
type noted struct {
	io.Writer
	failed error
}

func (w *noted) Write(p []byte) (n int, err error) {
	n, w.failed = w.Writer.Write(p)
	return n, w.failed
}

// lost is the error of a program that believes that all was well, and has printed something
// that is nowhere: its last words, for else it would have been told. Who does not read any
// more does not miss them.
func (w *noted) lost() error {
	if w.failed == nil || errors.Is(w.failed, unix.EPIPE) {
		return nil
	}
	return fmt.Errorf("write what the program printed: %w", w.failed)
}

// descriptor writes to one of ours. An os.File ends the process when nobody reads its
// standard output any more; here it is the program that shall learn of it.
type descriptor int

func (d descriptor) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := unix.Write(int(d), p[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN): // somebody made it so
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(d), Events: unix.POLLOUT}}, -1)
		case err != nil:
			return n, err
		default:
			n += m
		}
	}
	return n, nil
}

// forwarder passes signals on to the program. A user who repeats one that should end
// it gets a way out with the third. It stays until we exit: to stop listening would take
// longer than most programs run.
type forwarder struct {
	p       *wire.Process
	opts    Options
	signals chan os.Signal
	ready   chan struct{} // closed when all of them are passed on
	urgent  int
	leave   *leaver  // nil unless the program is kept
	console *console // nil without a terminal

	interrupted atomic.Bool // SIGINT was among them
	insisted    atomic.Bool // and there were so many that the program was hung up on
}

func (f *forwarder) run() {
	ui.Hear(f.signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	if f.console != nil {
		// On a terminal, the first is also how we hear that it is gone.
		signal.Notify(f.signals, unix.SIGHUP, unix.SIGWINCH, unix.SIGCONT)
		f.console.heed(f.signals)
	}
	close(f.ready)
	for s := range f.signals {
		n, _ := s.(syscall.Signal)
		switch n {
		case unix.SIGWINCH:
			_ = f.p.Resize(*size())
			continue
		case unix.SIGCONT:
			f.console.continued()
			continue
		case unix.SIGTSTP:
			f.console.asked()
		}
		if n == unix.SIGHUP && f.leave != nil {
			f.leave.away()
			continue
		}
		if ends(n) {
			f.urgent++
		}
		if n == unix.SIGINT {
			f.interrupted.Store(true)
		}
		_ = f.p.Signal(n)
		if f.console != nil && ends(n) {
			f.console.ending()
		}
		switch {
		case f.urgent < 3:
		case f.opts.Stop != nil:
			f.opts.Stop()
		case f.leave != nil:
			f.leave.away()
		default:
			f.insisted.Store(true)
			f.p.Close()
		}
	}
}
