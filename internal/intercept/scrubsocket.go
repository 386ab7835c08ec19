package intercept

import (
	"encoding/binary"
	"io"
)

// A socketReader swaps in the messages of a WebSocket, which may come in several frames. As the
// swapper keeps lengths, frames stay as they are. What is kept back of a message keeps back all
// that follows, such as the head of its next frame.
type socketReader struct {
	*swapper
	src io.Reader

	buf    []byte
	parsed int    // bytes of buf that are heads, or payload that is in open or done
	ready  int    // bytes of buf that can be read
	open   []span // payload of the message that may yet change
	left   uint64 // bytes of the frame's payload that are not parsed
	final  bool   // the frame is the last of its message
	err    error
}

// A span is a part of buf.
type span struct{ from, to int }

func (r *socketReader) Read(p []byte) (int, error) {
	for r.ready == 0 {
		if r.err != nil {
			return 0, r.err
		}
		piece := make([]byte, streamSize)
		n, err := r.src.Read(piece)
		r.buf, r.err = append(r.buf, piece[:n]...), err
		if err := r.parse(); err != nil {
			r.buf, r.ready, r.err = nil, 0, err
			return 0, err
		}
		if r.err != nil {
			r.swap(true)
			r.ready = len(r.buf)
		}
		if len(r.buf)-r.ready > 2*(streamSize+r.longest) { // endless frames with nothing in them
			r.buf, r.ready, r.err = nil, 0, errFrame
		}
	}
	n := copy(p, r.buf[:r.ready])
	r.buf, r.ready, r.parsed = r.buf[n:], r.ready-n, r.parsed-n
	for i := range r.open {
		r.open[i].from -= n
		r.open[i].to -= n
	}
	return n, nil
}

// parse looks at what has come.
func (r *socketReader) parse() error {
	for {
		if r.left > 0 {
			n := int(min(r.left, uint64(len(r.buf)-r.parsed)))
			if n == 0 {
				break
			}
			r.open = append(r.open, span{r.parsed, r.parsed + n})
			r.parsed += n
			r.left -= uint64(n)
			if r.left == 0 && r.final {
				r.swap(true)
			}
			continue
		}
		head, size, err := frameHead(r.buf[r.parsed:])
		if err != nil {
			return err
		}
		control := len(r.buf) > r.parsed && r.buf[r.parsed]&8 != 0
		if head == 0 || control && len(r.buf)-r.parsed < head+int(size) {
			break
		}
		first := r.buf[r.parsed]
		r.parsed += head
		if control { // at most 125 bytes, and perhaps between the frames of a message
			r.swapper.swap(r.buf[r.parsed:r.parsed+int(size)], true)
			r.parsed += int(size)
			continue
		}
		if r.left, r.final = size, first&0x80 != 0; size == 0 && r.final {
			r.swap(true)
		}
	}
	r.swap(false)
	return nil
}

// frameHead is the length of a frame's head, 0 if it is not there yet, and that of its payload.
func frameHead(b []byte) (head int, size uint64, err error) {
	if len(b) < 2 {
		return 0, 0, nil
	}
	// No extension was agreed on, and servers do not mask.
	if b[0]&0x70 != 0 || b[1]&0x80 != 0 || b[0]&8 != 0 && b[1] > 125 {
		return 0, 0, errFrame
	}
	switch size = uint64(b[1]); {
	case size < 126:
		return 2, size, nil
	case size == 126 && len(b) >= 4:
		return 4, uint64(binary.BigEndian.Uint16(b[2:])), nil
	case size == 127 && len(b) >= 10:
		if size = binary.BigEndian.Uint64(b[2:]); size>>63 != 0 {
			return 0, 0, errFrame
		}
		return 10, size, nil
	}
	return 0, 0, nil
}

// swap swaps in the open payload, and finds out what can be read.
func (r *socketReader) swap(last bool) {
	var text []byte
	for _, s := range r.open {
		text = append(text, r.buf[s.from:s.to]...)
	}
	done, _ := r.swapper.swap(text, last)
	for len(r.open) > 0 {
		s := &r.open[0]
		n := copy(r.buf[s.from:s.to], text)
		text = text[n:]
		if n > done {
			s.from += done
			break
		}
		done -= n
		r.open = r.open[1:]
	}
	if r.ready = r.parsed; len(r.open) > 0 {
		r.ready = r.open[0].from
	}
}
