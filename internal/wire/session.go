package wire

import (
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// A Session is one end of the multiplexed stream between a supervisor and its guest agent.
type Session = yamux.Session

// NewClient starts the end that opens streams.
func NewClient(conn net.Conn) (*Session, error) { return yamux.Client(conn, config()) }

// NewServer starts the end that accepts them.
func NewServer(conn net.Conn) (*Session, error) { return yamux.Server(conn, config()) }

// config is yamux without timers: an idle sandbox costs no CPU, and a supervisor
// that was stopped with Ctrl-Z for an hour finds its streams alive.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = 24 * time.Hour
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = 0
	c.MaxStreamWindowSize = 1 << 20
	c.LogOutput = io.Discard
	return c
}

// Call sends a request on a stream of its own, and waits for its answer of one message.
func Call(s *Session, r Request, patience time.Duration) (e Event, err error) {
	c, err := s.Open()
	if err != nil {
		return e, err
	}
	defer HangUp(c)
	c.SetDeadline(time.Now().Add(patience))
	if err := WriteMessage(c, r); err != nil {
		return e, err
	}
	return Answer(c)
}
