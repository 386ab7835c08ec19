package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// The kinds of frame. Data is named by the descriptor it comes from or goes to.
const (
	Input   byte = 0
	Output  byte = 1
	Errors  byte = 2
	Message byte = 'm'
)

const (
	// MaxData is the most that one frame of data carries.
	MaxData = 64 << 10
	// Window is how much input a client may send before it gets credit.
	Window = 256 << 10
)

const frameHead = 5

// A FrameWriter sends frames; several goroutines may use it.
type FrameWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewFrameWriter sends to w.
func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Data sends bytes of a descriptor, in as many frames as it takes.
func (f *FrameWriter) Data(kind byte, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), MaxData)
		if err := f.send(kind, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Message sends an [Event] or a [Control].
func (f *FrameWriter) Message(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.send(Message, body)
}

// send writes a frame in one piece: one system call, and nobody gets in between.
func (f *FrameWriter) send(kind byte, body []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = append(f.buf[:0], kind, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(f.buf[1:], uint32(len(body)))
	f.buf = append(f.buf, body...)
	_, err := f.w.Write(f.buf)
	return err
}

// A FrameReader receives frames.
type FrameReader struct {
	r   io.Reader
	buf []byte
}

// NewFrameReader receives from r, and may read ahead.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: bufio.NewReaderSize(r, 16<<10)} }

// Next returns the next frame. The bytes are good until the next call.
func (f *FrameReader) Next() (kind byte, body []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxData {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d", ErrMessage, n, MaxData)
	}
	if cap(f.buf) < int(n) {
		f.buf = make([]byte, n)
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		return 0, nil, err
	}
	return head[0], f.buf, nil
}

// decode reads a message out of a frame.
func decode(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return nil
}

// DecodeControl reads what a client says.
func DecodeControl(body []byte) (c Control, err error) { return c, decode(body, &c) }
