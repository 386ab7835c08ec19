package wire

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// An Opener opens a stream to the other end, by a socket, or by way of the supervisor
// that this very process is.
type Opener interface {
	Open() (io.ReadWriteCloser, error)
}

// A Process is an exec seen from the client.
type Process struct {
	// Stopped, if set before Wait, is called by it when the program has stopped, behind
	// what was printed before. Who has set it sends SIGCONT in time; otherwise that is
	// done at once, as nobody else would.
	Stopped func()

	conn   io.ReadWriteCloser
	frames *FrameReader
	out    *FrameWriter

	mu     sync.Mutex
	more   sync.Cond // credit, or the end
	credit int
	ended  bool
}

// Start asks for an exec. It does not wait for an answer: [Process.WaitStart] tells
// whether the program could be started, and [Process.Wait] how it ended.
func Start(o Opener, e Exec) (*Process, error) { return open(o, Request{Op: OpExec, Exec: &e}) }

// Join asks for a program that was kept, for a terminal of a size.
func Join(o Opener, s Size) (*Process, error) { return open(o, Request{Op: OpAttach, Attach: &s}) }

func open(o Opener, r Request) (*Process, error) {
	conn, err := o.Open()
	if err != nil {
		return nil, err
	}
	if err := WriteMessage(conn, r); err != nil {
		conn.Close()
		return nil, err
	}
	p := &Process{conn: conn, frames: NewFrameReader(conn), out: NewFrameWriter(conn), credit: Window}
	p.more.L = &p.mu
	return p, nil
}

// WaitStart returns when the program runs. A [*Failure] says why it does not;
// [ErrGone] that the sandbox ended before it could be, and [ErrLost] that it ended and
// nobody knows.
func (p *Process) WaitStart() error {
	kind, body, err := p.frames.Next()
	if err == nil && kind == Taken {
		kind, body, err = p.frames.Next()
	}
	if err != nil {
		return gone(err)
	}
	var e Event
	switch kind {
	case Started:
		return nil
	case Lost:
		return ErrLost
	case Message:
		err = decode(body, &e)
	}
	switch {
	case err != nil:
		return err
	case e.Failure != nil:
		return e.Failure
	}
	return fmt.Errorf("%w: something came before the start", ErrMessage)
}

// Wait copies what the program prints, and returns how it ended. A writer that fails
// gets no more, and the program learns that nobody reads it.
func (p *Process) Wait(stdout, stderr io.Writer) (exit Exit, err error) {
	defer p.end()
	writers := [...]io.Writer{Output: stdout, Errors: stderr}
	for {
		kind, body, err := p.frames.Next()
		if err != nil {
			return exit, gone(err)
		}
		switch kind {
		case Exited:
			return decodeExit(body)
		case Message:
			if err := p.event(body); err != nil {
				return exit, err
			}
		case Output, Errors:
			if w := writers[kind]; w != nil {
				if _, err := w.Write(body); err != nil {
					writers[kind] = nil
					_ = p.out.Message(Control{Deaf: int(kind)})
				}
			}
		}
	}
}

// maxNotes bounds how many notes are heard.
const maxNotes = 20

// Last hears what a supervisor has to say after the program has ended, and returns when
// that is all.
func (p *Process) Last(note func(line string)) {
	for range maxNotes {
		kind, body, err := p.frames.Next()
		if err != nil {
			return
		}
		if kind == Note && len(body) <= MaxNote {
			note(string(body))
		}
	}
}

// event handles a message about the program.
func (p *Process) event(body []byte) error {
	var e Event
	if err := decode(body, &e); err != nil {
		return err
	}
	if e.Credit > 0 && e.Credit <= Window {
		p.mu.Lock()
		p.credit = min(p.credit+e.Credit, Window)
		p.more.Broadcast()
		p.mu.Unlock()
	}
	switch {
	case !e.Stopped:
	case p.Stopped != nil:
		p.Stopped()
	default:
		_ = p.Signal(syscall.SIGCONT)
	}
	return nil
}

func (p *Process) end() {
	p.mu.Lock()
	p.ended = true
	p.more.Broadcast()
	p.mu.Unlock()
}

func gone(err error) error {
	if errors.Is(err, ErrMessage) {
		return err
	}
	return ErrGone
}

// ErrGone says that the sandbox ended before the program told its exit code.
var ErrGone = errors.New("the sandbox is gone")

// ErrLost is ErrGone for a program of which nobody knows whether it was started. It must
// not be started again.
var ErrLost = errors.New("the sandbox is gone, and the program may have run")

// Write sends input to the program. It waits while the program does not read.
func (p *Process) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		chunk := p.spend(len(b))
		if chunk == 0 {
			return n, io.ErrClosedPipe
		}
		if err := p.out.Data(Input, b[:chunk]); err != nil {
			return n, err
		}
		n += chunk
		b = b[chunk:]
	}
	return n, nil
}

// spend takes credit for at most n bytes, waiting for some. None means that the
// program has ended.
func (p *Process) spend(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.credit == 0 && !p.ended {
		p.more.Wait()
	}
	if p.ended {
		return 0
	}
	n = min(n, p.credit)
	p.credit -= n
	return n
}

// CloseInput says that there is no more input.
func (p *Process) CloseInput() error { return p.out.Message(Control{EOF: true}) }

// Resize tells the program's terminal its new size.
func (p *Process) Resize(s Size) error { return p.out.Message(Control{Resize: &s}) }

// Signal sends the program a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.out.Message(Control{Signal: s}) }

// Close lets go of the exec. A program that still runs is hung up on.
func (p *Process) Close() {
	p.end()
	p.conn.Close()
}
