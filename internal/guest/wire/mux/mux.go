// Package mux divides one byte stream to a guest agent into many, each with flow
// control, by means of yamux.
//
// It is not part of package wire because commands do without it: they reach a
// supervisor by a socket. Yamux needs the whole network package, and a command that
// carries that starts a tenth slower.
package mux

import (
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// A Session is one end of the multiplexed stream.
type Session = yamux.Session

// Client starts the end that opens streams.
func Client(conn net.Conn) (*Session, error) { return yamux.Client(&joined{Conn: conn}, config()) }

// Server starts the end that accepts them.
func Server(conn net.Conn) (*Session, error) { return yamux.Server(&joined{Conn: conn}, config()) }

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

// joined sends in one piece what yamux writes in several: a frame's header and its body,
// and before them the opening of the stream. For each piece alone the other end would be
// woken for nothing. Who opens a stream always speaks first, so nothing is held for long.
type joined struct {
	net.Conn
	held []byte
	body bool // the next write is one
}

// A header of yamux: version, type, flags (2 bytes), stream (4), length (4).
const (
	headSize   = 12
	typeAt     = 1
	flagsAt    = 3 // the lower byte, which has all of them
	lengthAt   = 8
	typeData   = 0
	typeWindow = 1
	flagSYN    = 1
)

// Write is called by yamux's one sending goroutine only.
func (j *joined) Write(p []byte) (int, error) {
	switch {
	case j.body || len(p) != headSize:
		j.body = false
	case p[typeAt] == typeData && binary.BigEndian.Uint32(p[lengthAt:]) > 0:
		j.body = true
		fallthrough
	case p[typeAt] == typeWindow && p[flagsAt]&flagSYN != 0:
		j.held = append(j.held, p...)
		return len(p), nil
	}
	if len(j.held) == 0 {
		return j.Conn.Write(p)
	}
	before := int64(len(j.held))
	both := net.Buffers{j.held, p}
	n, err := both.WriteTo(j.Conn)
	j.held = j.held[:0]
	return int(max(n-before, 0)), err
}
