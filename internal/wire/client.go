package wire

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

// Dial is an [Opener] that connects to a Unix socket for every stream.
type Dial string

// Open connects.
func (d Dial) Open() (io.ReadWriteCloser, error) { return d.connect() }

func (d Dial) connect() (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: string(d), Net: "unix"})
}

// A Line leads a command to the supervisor of a running sandbox.
type Line struct {
	path    Dial
	release func()
	first   *net.UnixConn // made when we tried whether anybody is there
}

// A Place is where a sandbox's socket is. The caller calls release when it needs the path no more.
type Place interface {
	Socket() (path string, release func(), err error)
}

// Connect reaches the supervisor of a running sandbox.
func Connect(at Place) (*Line, error) {
	path, release, err := at.Socket()
	if err != nil {
		return nil, err
	}
	l := &Line{path: Dial(path), release: release}
	if l.first, err = l.path.connect(); err != nil {
		release()
		return nil, err
	}
	return l, nil
}

// Open opens a stream to the supervisor.
func (l *Line) Open() (io.ReadWriteCloser, error) { return l.Socket() }

// Socket is Open for who needs the socket itself.
func (l *Line) Socket() (*net.UnixConn, error) {
	if s := l.first; s != nil {
		l.first = nil
		return s, nil
	}
	return l.path.connect()
}

// Close lets go of the line. Streams that were opened stay.
func (l *Line) Close() {
	if l.first != nil {
		l.first.Close()
	}
	l.release()
}

// Reply answers a request with an event, or with why there is none, or not all of it.
func Reply(w io.Writer, e Event, err error) {
	if err != nil {
		e.Failure = &Failure{Code: 125, Message: err.Error(), Advice: ui.HintOf(err)}
	}
	_ = WriteMessage(w, e)
}

// Ask sends a request and waits for its answer. A refusal is a [*Failure] with its hint.
func (l *Line) Ask(r Request, patience time.Duration) (e Event, err error) {
	s, err := l.Socket()
	if err != nil {
		return e, err
	}
	defer s.Close()
	if err := s.SetDeadline(time.Now().Add(patience)); err != nil {
		return e, err
	}
	if err := WriteMessage(s, r); err != nil {
		return e, err
	}
	err = ReadMessage(s, MaxList, &e)
	if err == nil && e.Failure != nil {
		if err = e.Failure; e.Failure.Advice != "" {
			err = ui.Hint(err, "%s", e.Failure.Advice)
		}
	}
	return e, err
}

// Forward changes the forwards of the running sandbox at the end of the line. It returns
// those that were asked for.
func (l *Line) Forward(w Forwarding) ([]Forward, error) {
	e, err := l.Ask(Request{Op: OpForward, Forward: &w}, 20*time.Second)
	if err == nil && e.Ports == nil {
		err = errors.New("the supervisor told no ports")
	}
	if err != nil {
		return nil, err
	}
	return e.Ports.Forwards, nil
}

// statusTime is how long that may take: who took a supervisor that is slow for one in which nothing
// runs would start a second agent beside the first. One that is suspended is found out otherwise.
const statusTime = 10 * time.Second

// Status asks how the sandbox at the end of the line is, with its ports if wanted.
func (l *Line) Status(ports bool) (*Status, error) {
	r := Request{Op: OpStatus}
	if ports {
		r.Ports = &Survey{}
	}
	e, err := l.Ask(r, statusTime)
	if err == nil && e.Status == nil {
		err = errors.New("the supervisor told no status")
	}
	return e.Status, err
}
