package attach

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// A console joins the program's terminal to ours.
type console struct {
	p     *wire.Process
	leave *leaver // nil unless the program is kept
	opts  Options
	away  suspension

	mu     sync.Mutex // guards what follows
	state  *terminal.State
	filter *terminal.Filter
	input  *input
	typed  chan struct{} // closed when what input gave has been passed on
	keys   atomic.Int64  // how often something was typed

	pressed atomic.Bool // Ctrl-C was
}

// run carries until the program has ended.
func (c *console) run(apart bool) (exit wire.Exit, err error) {
	c.filter = terminal.NewFilter(os.Stdout, terminal.Options{ClipboardWrite: c.opts.Clipboard})
	c.mu.Lock()
	err = c.take()
	c.mu.Unlock()
	if err != nil {
		return exit, err
	}
	defer c.giveBack()
	var screen io.Writer = c.filter
	if c.opts.Unfiltered {
		screen = os.Stdout
	}
	say := &announcer{to: screen, plain: os.Stdout, full: c.filter.FullScreen, raw: true, anew: c.drawAnew}
	var errs io.Writer
	if apart {
		errs = descriptor(2)
		say = &announcer{to: errs, plain: os.Stderr}
	}
	hush := func(bool) {}
	if c.opts.Notices != nil {
		if apart {
			errs = say
		} else {
			screen = say
		}
		hush = c.opts.Notices.Watch(say.announce)
	}
	exit, err = c.p.Wait(screen, errs)
	hush(err != nil || exit.Status() != 0)
	ours := c.ended()
	if ours {
		c.deafen() // what is asked below is answered to us, not to who read for the program
	}
	full := c.filter.FullScreen()
	_ = c.filter.Close()
	os.Stdout.Write(c.filter.Undo())
	say.finish()
	if !apart && !full && (err != nil || c.leave.left()) {
		say.away() // what is said about it follows
	}
	if ours {
		terminal.Drain(os.Stdin, os.Stdout, c.filter.Asked())
	}
	return exit, err
}

// take makes our terminal the program's. The lock is held.
func (c *console) take() error {
	state, err := terminal.Raw(0)
	if err != nil {
		return err
	}
	c.state = state
	return c.listen()
}

// giveBack makes it ours again, for good.
func (c *console) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.state.Restore()
	c.state = nil
}

// listen passes on what is typed. The lock is held.
func (c *console) listen() error {
	input, err := newInput(os.Stdin)
	if err != nil {
		return err
	}
	before, typed := c.typed, make(chan struct{})
	c.input, c.typed = input, typed
	go func() {
		defer close(typed)
		defer input.sleep.Close()
		if before != nil {
			<-before // what was typed first goes first
		}
		var to io.Writer = c.p
		if c.leave != nil {
			to = c.leave
		}
		if _, err := io.Copy(&typing{to, c}, input); errors.Is(err, errHungUp) && c.leave != nil {
			c.leave.away()
		}
	}()
	return nil
}

// deafen leaves what is typed from now on to others.
func (c *console) deafen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.input == nil {
		return
	}
	c.input.Close()
	c.input = nil
	select {
	case <-c.typed:
	case <-time.After(100 * time.Millisecond): // another process took what it was about to read
	}
}

// typing notes what is typed on its way to the program.
type typing struct {
	io.Writer
	c *console
}

func (t *typing) Write(p []byte) (int, error) {
	t.c.keys.Add(1)
	if bytes.IndexByte(p, ctrlC) >= 0 {
		t.c.pressed.Store(true)
	}
	return t.Writer.Write(p)
}

// ctrlC is the key that sends SIGINT on a new terminal, such as the program's.
const ctrlC = 0x03

// size is our terminal's, or zero by zero, which programs know how to take.
func size() *wire.Size {
	cols, rows, err := terminal.Size(1)
	if err != nil {
		return &wire.Size{}
	}
	return &wire.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// input reads a terminal until it is closed, and then leaves what comes for others:
// a plain read that is under way could not be called back.
type input struct {
	fd          int
	wake, sleep *os.File
}

func newInput(f *os.File) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{fd: int(f.Fd()), sleep: r, wake: w}, nil
}

func (i *input) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(i.fd), Events: unix.POLLIN}, {Fd: int32(i.sleep.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, io.EOF
		}
		n, err := unix.Read(i.fd, p)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
			continue
		case n == 0 && err == nil:
			return 0, errHungUp
		}
		return max(n, 0), err
	}
}

// errHungUp says that the terminal is gone.
var errHungUp = errors.New("the terminal was hung up")

// Close makes Read return.
func (i *input) Close() error { return i.wake.Close() }
