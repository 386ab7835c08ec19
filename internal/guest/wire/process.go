package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
)

// An Opener opens a stream to the other end: a [Session], or the supervisor of
// this very process.
type Opener interface {
	Open() (net.Conn, error)
}

// A Process is an exec seen from the client.
type Process struct {
	// Terminal carries both directions when the exec has a terminal; otherwise
	// it is nil and the others are set, Stderr unless it is merged.
	Terminal io.ReadWriteCloser
	Stdin    io.WriteCloser
	Stdout   io.ReadCloser
	Stderr   io.ReadCloser

	control net.Conn
	writing sync.Mutex
	streams []net.Conn
}

// Start asks for an exec. It does not wait for an answer: [Process.WaitStart] tells
// whether the program could be started, and [Process.Wait] how it ended.
func Start(o Opener, e Exec) (*Process, error) {
	if e.Token == "" {
		e.Token = NewToken()
	}
	p := &Process{}
	control, err := p.open(o, Request{Op: OpExec, Exec: &e})
	if err != nil {
		return nil, err
	}
	p.control = control
	if e.Log {
		return p, nil
	}
	for fd := range e.Streams() {
		s, err := p.open(o, Request{Op: OpIO, IO: &IO{Token: e.Token, FD: fd}})
		if err != nil {
			p.Close()
			return nil, err
		}
		switch {
		case e.TTY != nil:
			p.Terminal = s
		case fd == 0:
			p.Stdin = s
		case fd == 1:
			p.Stdout = s
		default:
			p.Stderr = s
		}
	}
	return p, nil
}

func (p *Process) open(o Opener, r Request) (net.Conn, error) {
	s, err := o.Open()
	if err != nil {
		return nil, err
	}
	p.streams = append(p.streams, s)
	if err := WriteMessage(s, r); err != nil {
		p.Close()
		return nil, err
	}
	return s, nil
}

// WaitStart returns when the program runs. A [*Failure] says why it does not;
// [ErrGone] that the sandbox ended before it could be.
func (p *Process) WaitStart() error {
	e, err := p.event()
	if err == nil && e.Started == nil {
		err = fmt.Errorf("%w: the program ended before it began", ErrMessage)
	}
	return err
}

// Wait returns how the program ended, after WaitStart.
func (p *Process) Wait() (Exit, error) {
	e, err := p.event()
	if err == nil && e.Exit == nil {
		err = fmt.Errorf("%w: the program began twice", ErrMessage)
	}
	if err != nil {
		return Exit{}, err
	}
	return *e.Exit, nil
}

// event reads the next event.
func (p *Process) event() (e Event, err error) {
	err = ReadMessage(p.control, MaxReply, &e)
	switch {
	case err == nil && e.Failure != nil:
		err = e.Failure
	case errors.Is(err, ErrMessage):
	case err != nil:
		err = ErrGone
	}
	return e, err
}

// ErrGone says that the sandbox ended before the program told its exit code.
var ErrGone = errors.New("the sandbox is gone")

// Resize tells the program's terminal its new size.
func (p *Process) Resize(s Size) error { return p.say(Control{Resize: &s}) }

// Signal sends the program a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.say(Control{Signal: s}) }

func (p *Process) say(c Control) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return WriteMessage(p.control, c)
}

// Close lets go of the exec. A program that still runs is hung up on.
func (p *Process) Close() {
	for _, s := range p.streams {
		s.Close()
	}
}
