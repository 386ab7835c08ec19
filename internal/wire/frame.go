package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// The kinds of frame. Data is named by the descriptor it comes from or goes to.
const (
	Input   byte = 0
	Output  byte = 1
	Errors  byte = 2
	Message byte = 'm' // about the program, in JSON
	Taken   byte = 't' // the request has been read: from here on the program may run
	Started byte = 's' // the program runs
	Exited  byte = 'x' // its exit code and the signal that ended it, a byte each; the last frame
	Note    byte = 'n' // behind the last frame, from a supervisor: a line for the user
	Lost    byte = 'l' // the sandbox ended, from a supervisor: the program may have been started
)

const (
	// MaxData is the most that one frame of data carries.
	MaxData = 64 << 10
	// Window is how much input a client may send before it gets credit.
	Window = 256 << 10
	// MaxNote is the longest note.
	MaxNote = 4 << 10
)

// frameHead is the size of a frame's header: a kind and a length.
const frameHead = 5

// A FrameWriter sends frames; several goroutines may use it.
type FrameWriter struct {
	mu   sync.Mutex
	w    io.Writer
	buf  []byte
	sent int // how many frames were
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

// Started says that the program runs.
func (f *FrameWriter) Started() error { return f.send(Started, nil) }

// Taken says that a request has been read.
func (f *FrameWriter) Taken() error { return f.send(Taken, nil) }

// ReadTaken reads that the request was taken, for who passes it on. If the other end was
// gone already, it was not, and can be made again elsewhere.
func ReadTaken(r io.Reader) bool {
	var head [frameHead]byte
	_, err := io.ReadFull(r, head[:])
	return err == nil && head == [frameHead]byte{Taken}
}

// Lost says that nothing more will come from a sandbox that was asked for a program.
func (f *FrameWriter) Lost() error { return f.send(Lost, nil) }

// Note says something to the user after the program has ended.
func (f *FrameWriter) Note(line string) error {
	return f.send(Note, []byte(line[:min(len(line), MaxNote)]))
}

// Exited says how the program ended.
func (f *FrameWriter) Exited(e Exit) error {
	body := []byte{byte(e.Code), byte(e.Signal)}
	for _, port := range e.Refused {
		body = binary.BigEndian.AppendUint16(body, port)
	}
	return f.send(Exited, body)
}

// send writes a frame in one piece: one system call, and nobody gets in between.
func (f *FrameWriter) send(kind byte, body []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = append(binary.BigEndian.AppendUint32(append(f.buf[:0], kind), uint32(len(body))), body...)
	f.sent++
	_, err := f.w.Write(f.buf)
	return err
}

// Sent counts the frames so far.
func (f *FrameWriter) Sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

// A FrameReader receives frames.
type FrameReader struct {
	r   *bufio.Reader
	buf []byte
}

// NewFrameReader receives from r, and may read ahead.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: bufio.NewReader(r)} }

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

func decodeExit(body []byte) (e Exit, err error) {
	if len(body) < 2 || len(body)%2 != 0 {
		return e, fmt.Errorf("%w: an exit of %d bytes", ErrMessage, len(body))
	}
	e = Exit{Code: int(body[0]), Signal: syscall.Signal(body[1])}
	for at := 2; at < len(body); at += 2 {
		e.Refused = append(e.Refused, binary.BigEndian.Uint16(body[at:]))
	}
	return e, nil
}

// DecodeControl reads what a client says.
func DecodeControl(body []byte) (c Control, err error) { return c, decode(body, &c) }
