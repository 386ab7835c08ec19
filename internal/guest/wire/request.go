package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/cofferhq/coffer/internal/pack"
	"github.com/cofferhq/coffer/internal/umask"
)

// A request is JSON, as all messages, but for the one that people wait for: an Exec is
// packed. It is made, passed on and read a good tenth of a millisecond faster, most of
// it the cost of the first use of JSON in a process.
//
//	'x' flags rows cols [umask] dir arguments environment
//
// A flag says whether the umask is there: who does not know it refuses the request, and most
// are as they were before it.
const packedExec = 'x'

const (
	// The flags, in the second byte, of an Exec whose client does not wait, and of one
	// that outlives it.
	packedLog, packedKeep = 1, 1 << 6
	// maxTexts is more arguments, or variables, than Linux has room for. Many empty
	// ones take more memory than the bytes that they came in.
	maxTexts = MaxRequest / 8
)

// WriteRequest sends a request.
func WriteRequest(w io.Writer, r Request) error {
	if r.Op == OpExec && r.Exec != nil {
		return writeBody(w, r.Exec.pack(make([]byte, 4, 1024)))
	}
	return WriteMessage(w, r)
}

// A Packed request has been read and not yet looked at.
type Packed []byte

// ReadRequest receives a request.
func ReadRequest(r io.Reader) (Packed, error) { return readBody(r, MaxRequest) }

// Packed is the request for a program.
func (e *Exec) Packed() Packed { return e.pack(nil) }

// Pass sends a request on as it is.
func (p Packed) Pass(w io.Writer) error {
	return WritePacked(w, p)
}

// IsExec says whether this asks for a program that lives as long as its client.
func (p Packed) IsExec() bool {
	return len(p) > 1 && p[0] == packedExec && p[1]&(packedLog|packedKeep) == 0
}

// Open reads the request. What it returns shares the packed one's memory.
func (p Packed) Open() (r Request, err error) {
	if len(p) > 0 && p[0] == packedExec {
		r.Op = OpExec
		r.Exec, err = unpack(p[1:])
		return r, err
	}
	if err := json.Unmarshal(p, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return r, nil
}

func (e *Exec) pack(b []byte) []byte {
	size := Size{}
	if e.TTY != nil {
		size = *e.TTY
	}
	b = append(b, packedExec)
	b = pack.Flags(b, e.Log, e.Root, e.TTY != nil, e.NoInput, e.Merged, e.Apart, e.Keep, e.Umask != nil)
	b = pack.Number(b, uint64(size.Rows))
	b = pack.Number(b, uint64(size.Cols))
	if e.Umask != nil {
		b = pack.Number(b, uint64(*e.Umask))
	}
	b = pack.Text(b, e.Dir)
	b = pack.Texts(b, e.Argv)
	return pack.Texts(b, e.Env)
}

func unpack(b []byte) (*Exec, error) {
	r := pack.NewReader(b)
	e := &Exec{}
	tty, masked := false, false
	r.Flags(&e.Log, &e.Root, &tty, &e.NoInput, &e.Merged, &e.Apart, &e.Keep, &masked)
	size := Size{Rows: uint16(r.Number(math.MaxUint16)), Cols: uint16(r.Number(math.MaxUint16))}
	if tty {
		e.TTY = &size
	}
	if masked {
		mask := uint16(r.Number(umask.Most))
		e.Umask = &mask
	}
	e.Dir = string(r.Text())
	e.Argv, e.Env = r.Texts(maxTexts), r.Texts(maxTexts)
	if !r.Done() {
		return nil, fmt.Errorf("%w: a packed exec of %d bytes", ErrMessage, len(b))
	}
	return e, nil
}
