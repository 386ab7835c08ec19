package guest

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// stdio carries a program's bytes.
type stdio interface {
	run(in *wire.Inbox) // start carrying
	finish()            // the program has ended: send what is left
	settle()            // the program has stopped: wait until what it printed is sent
	close()             // let go of everything
	resize(wire.Size)   // the terminal has a new size
	deafen(fd int)      // nobody reads this descriptor any more
}

// pipes are three descriptors without a terminal, the last two perhaps one.
type pipes struct {
	in       *os.File // nil if there is no input
	out      []*os.File
	frames   *wire.FrameWriter
	carrying sync.WaitGroup
}

// newPipes returns our ends, and the program's as plain descriptors: they stay as
// blocking as they are made, and need no place in the poller.
func newPipes(frames *wire.FrameWriter, noInput, merged bool) (_ stdio, theirs []int, err error) {
	p := &pipes{frames: frames}
	defer func() {
		if err != nil {
			closeAll(theirs)
			p.close()
		}
	}()
	if noInput {
		null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
		}
		theirs = append(theirs, null)
	} else {
		r, w, err := pipe()
		if err != nil {
			return nil, nil, err
		}
		theirs = append(theirs, r)
		if p.in, err = ours(w); err != nil {
			return nil, theirs, err
		}
	}
	for range 2 {
		if merged && len(p.out) == 1 {
			return p, append(theirs, theirs[1]), nil
		}
		r, w, err := pipe()
		if err != nil {
			return nil, theirs, err
		}
		theirs = append(theirs, w)
		f, err := ours(r)
		if err != nil {
			return nil, theirs, err
		}
		p.out = append(p.out, f)
	}
	return p, theirs, nil
}

func pipe() (r, w int, err error) {
	var fds [2]int
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], os.NewSyscallError("pipe2", err)
}

// ours is an end of a pipe that we keep.
func ours(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pipe"), nil
}

// closeAll closes descriptors, of which the last two may be one.
func closeAll(fds []int) {
	for i, fd := range fds {
		if i == 0 || fd != fds[i-1] {
			unix.Close(fd)
		}
	}
}

func (p *pipes) run(in *wire.Inbox) {
	if p.in != nil {
		go func() {
			io.Copy(p.in, in)
			p.in.Close()
			in.Discard()
		}()
	}
	for i, f := range p.out {
		p.carrying.Go(func() { carry(p.frames, wire.Output+byte(i), f) })
	}
}

// finish sends what the program left in its pipes. A daemon that it started may hold
// them open for ever, so it is not waited for.
func (p *pipes) finish() {
	for _, f := range p.out {
		f.SetReadDeadline(time.Now())
	}
	p.carrying.Wait()
	p.close()
}

func (p *pipes) close() {
	p.in.Close()
	for _, f := range p.out {
		f.Close()
	}
}

func (p *pipes) settle()          {}
func (p *pipes) resize(wire.Size) {}

// deafen closes our end, so that the program gets SIGPIPE.
func (p *pipes) deafen(fd int) {
	if i := fd - int(wire.Output); i >= 0 && i < len(p.out) {
		p.out[i].Close()
	}
}

// carry sends from a pipe until its end, or until its deadline has passed and the pipe
// is empty.
func carry(to *wire.FrameWriter, kind byte, from *os.File) {
	buf := make([]byte, wire.MaxData/2)
	for {
		n, err := from.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = readNow(from, buf)
		}
		if n > 0 {
			if to.Data(kind, buf[:n]) != nil {
				from.Close()
				return
			}
		}
		if err != nil || n <= 0 {
			return
		}
	}
}

// readNow reads what is there without waiting, whatever the deadline.
func readNow(f *os.File, buf []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	e := raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) })
	if e != nil {
		return 0, e
	}
	return max(n, 0), err
}

// terminal is a pseudo-terminal, perhaps with a pipe for errors beside it.
type terminal struct {
	master *os.File
	frames *wire.FrameWriter
	done   chan struct{}

	beside   *os.File // where errors come from, nil if they go to the terminal
	carrying sync.WaitGroup
}

func newTerminal(frames *wire.FrameWriter, size wire.Size, apart bool) (stdio, []int, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	t := &terminal{master: os.NewFile(uintptr(fd), "/dev/ptmx"), frames: frames, done: make(chan struct{})}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.master.Close()
		return nil, nil, err
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.master.Close()
		return nil, nil, err
	}
	t.resize(size)
	name := "/dev/pts/" + strconv.Itoa(int(n))
	slave, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.master.Close()
		return nil, nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	theirs := []int{slave, slave, slave}
	if apart {
		r, w, err := pipe()
		if err == nil {
			theirs[2] = w
			t.beside, err = ours(r)
		}
		if err != nil {
			closeAll(theirs)
			t.master.Close()
			return nil, nil, err
		}
	}
	return t, theirs, nil
}

func (t *terminal) run(in *wire.Inbox) {
	if t.beside != nil {
		t.carrying.Go(func() { carry(t.frames, wire.Errors, t.beside) })
	}
	go func() {
		io.Copy(t.master, in)
		in.Discard()
	}()
	go func() {
		defer close(t.done)
		carry(t.frames, wire.Output, t.master)
	}()
}

// finish waits for the terminal's last bytes. The kernel hands them over from a work
// queue, and ends with an error once the last program has closed it; a daemon that
// keeps it open is given a moment.
func (t *terminal) finish() {
	select {
	case <-t.done:
	case <-time.After(100 * time.Millisecond):
		t.master.SetReadDeadline(time.Now())
		<-t.done
	}
	if t.beside != nil {
		t.beside.SetReadDeadline(time.Now())
		t.carrying.Wait()
	}
	t.close()
}

// settle waits for what the program printed before it stopped. The kernel does not say
// when it has handed over all of it; what comes later is shown later.
func (t *terminal) settle() {
	for range 10 {
		was := t.frames.Sent()
		time.Sleep(20 * time.Millisecond)
		if t.frames.Sent() == was {
			return
		}
	}
}

func (t *terminal) close() {
	t.master.Close()
	t.beside.Close()
}

func (t *terminal) deafen(fd int) {
	if fd == int(wire.Errors) {
		t.beside.Close()
	}
}

func (t *terminal) resize(s wire.Size) {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	})
}
