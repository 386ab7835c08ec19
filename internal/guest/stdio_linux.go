package guest

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"golang.org/x/sys/unix"
)

// stdio carries a program's bytes.
type stdio interface {
	run()             // start carrying
	finish()          // the program has ended: send what is left and close
	abandon()         // the program never started
	resize(wire.Size) // the terminal has a new size
}

const chunk = 64 << 10

// pipes are three descriptors without a terminal, the last two perhaps one.
type pipes struct {
	in       *os.File
	out      []*os.File
	streams  map[int]net.Conn
	carrying sync.WaitGroup
}

func newPipes(streams map[int]net.Conn) (stdio, []*os.File, error) {
	p := &pipes{streams: streams}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	theirs := []*os.File{r}
	p.in = w
	for range len(streams) - 1 {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, nil, err
		}
		p.out = append(p.out, r)
		theirs = append(theirs, w)
	}
	if len(theirs) == 2 {
		theirs = append(theirs, theirs[1])
	}
	return p, theirs, nil
}

func (p *pipes) run() {
	go func() {
		io.Copy(p.in, p.streams[0])
		p.in.Close()
		p.streams[0].Close()
	}()
	for i := range p.out {
		p.carrying.Go(func() { carry(p.streams[i+1], p.out[i]) })
		// A client that closes its end wants no more: the program gets SIGPIPE.
		go func() {
			io.Copy(io.Discard, p.streams[i+1])
			p.out[i].Close()
		}()
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
	for _, s := range p.streams {
		s.Close()
	}
}

func (p *pipes) abandon()         { p.close() }
func (p *pipes) resize(wire.Size) {}

// carry copies from a pipe until its end, or until its deadline has passed and the
// pipe is empty.
func carry(to io.Writer, from *os.File) {
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = readNow(from, buf)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil || n <= 0 {
			if c, ok := to.(io.Closer); ok {
				c.Close()
			}
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

// terminal is a pseudo-terminal.
type terminal struct {
	master *os.File
	stream net.Conn
	done   chan struct{}
}

func newTerminal(stream net.Conn, size wire.Size) (stdio, []*os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	t := &terminal{master: os.NewFile(uintptr(fd), "/dev/ptmx"), stream: stream, done: make(chan struct{})}
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
	f := os.NewFile(uintptr(slave), name)
	return t, []*os.File{f, f, f}, nil
}

func (t *terminal) run() {
	go func() {
		io.Copy(t.master, t.stream)
	}()
	go func() {
		defer close(t.done)
		carry(t.stream, t.master)
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
	t.abandon()
}

func (t *terminal) abandon() {
	t.master.Close()
	t.stream.Close()
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
