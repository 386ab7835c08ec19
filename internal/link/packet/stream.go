package packet

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// maxFrame is the longest frame of a stream: an IP packet of full size.
const maxFrame = ethernetSize + 65535

// NewStream is the link over a stream of frames, each after its length in four bytes,
// most significant first: what QEMU's network device of type stream speaks. A length
// that cannot be ends the link.
func NewStream(c net.Conn) (*Link, error) {
	return open(newStream(c))
}

// Frames that wait for the machine to read. Further ones are lost.
const (
	maxOutgoing      = 1024
	maxOutgoingBytes = 8 << 20
)

// A stream is the wire over a net.Conn. Others on the stack must not wait while the
// machine is slow to read, so that a goroutine does the writing.
type stream struct {
	conn    net.Conn
	writing sync.WaitGroup

	mu       sync.Mutex
	wake     *sync.Cond
	outgoing net.Buffers
	bytes    int
	closed   bool
}

func newStream(c net.Conn) *stream {
	s := &stream{conn: c}
	s.wake = sync.NewCond(&s.mu)
	s.writing.Go(s.write)
	return s
}

func (s *stream) receive(frame func([]byte, int)) {
	b := make([]byte, 256<<10)
	have := 0 // bytes in b
	for {
		n, err := s.conn.Read(b[have:])
		have += n
		rest := b[:have]
		for len(rest) >= 4 {
			size := binary.BigEndian.Uint32(rest)
			if size > maxFrame {
				return
			}
			if len(rest) < 4+int(size) {
				break
			}
			frame(rest[4:4+size], 0)
			rest = rest[4+size:]
		}
		have = copy(b, rest)
		if err != nil {
			return
		}
	}
}

func (s *stream) send(parts [][]byte, _ offload) bool {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	f := make([]byte, 4, 4+size)
	binary.BigEndian.PutUint32(f, uint32(size))
	for _, p := range parts {
		f = append(f, p...)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.outgoing) >= maxOutgoing || s.bytes+len(f) > maxOutgoingBytes {
		return false
	}
	s.outgoing = append(s.outgoing, f)
	s.bytes += len(f)
	s.wake.Signal()
	return true
}

// write sends what is waiting, all that there is in one call.
func (s *stream) write() {
	for {
		s.mu.Lock()
		for len(s.outgoing) == 0 && !s.closed {
			s.wake.Wait()
		}
		batch := s.outgoing
		s.outgoing, s.bytes = nil, 0
		s.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		if _, err := batch.WriteTo(s.conn); err != nil {
			s.stop()
			s.conn.Close() // ends receive
			return
		}
	}
}

func (s *stream) offloads() bool { return false }

// stop takes no more frames.
func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake.Signal()
}

// lastWords is how long the frames that wait when a link is closed may take: among
// them are the resets by which programs learn of it.
const lastWords = time.Second

func (s *stream) close() {
	s.stop()
	s.conn.SetWriteDeadline(time.Now().Add(lastWords))
	s.writing.Wait()
	s.conn.Close()
}
