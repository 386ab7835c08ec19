// Package line leads a command to the supervisor of a running sandbox. It is apart from
// the supervisor's own package because commands are started often and need little of
// what that needs.
package line

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// A Line leads to a supervisor.
type Line struct {
	path    wire.Dial
	release func()
	first   *net.UnixConn // made when we tried whether anybody is there
}

// Connect reaches the supervisor of a running sandbox.
func Connect(sb *sandbox.Sandbox) (*Line, error) {
	l, err := Over(sb)
	if err != nil {
		return nil, err
	}
	if l.first, err = l.path.Connect(); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// silent is how long a supervisor may take until it is looked at.
const silent = time.Second

// TellSuspended tells, in a while, if a sandbox answers nobody because it is suspended.
func TellSuspended(sb *sandbox.Sandbox, tell func(line string)) (stop func() bool) {
	return time.AfterFunc(silent, func() {
		if Suspended(sb) {
			tell(fmt.Sprintf("sandbox %s is suspended, as by Ctrl-Z: it goes on with 'fg' in its terminal, and 'coffer stop --force %s' ends it", sb.Name, sb.Name))
		}
	}).Stop
}

// Over is the line to the supervisor of a running sandbox for who has a connection already.
func Over(sb *sandbox.Sandbox) (*Line, error) {
	path, release, err := sb.Socket()
	if err != nil {
		return nil, err
	}
	return &Line{path: wire.Dial(path), release: release}, nil
}

// Open opens a stream to the supervisor.
func (l *Line) Open() (io.ReadWriteCloser, error) { return l.Socket() }

// Socket is Open for who wants to know what kind of stream it is.
func (l *Line) Socket() (*net.UnixConn, error) {
	if s := l.first; s != nil {
		l.first = nil
		return s, nil
	}
	return l.path.Connect()
}

// Close lets go of the line. Streams that were opened stay.
func (l *Line) Close() {
	if l.first != nil {
		l.first.Close()
	}
	l.release()
}
