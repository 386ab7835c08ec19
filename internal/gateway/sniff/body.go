package sniff

import (
	"strconv"
	"strings"
)

// A Body follows the body of a request to its end, where the next head begins. Like
// the head it must leave no doubt: chunks have no extensions, and trailers do not
// repeat what only a head may say.
type Body struct {
	left    int64 // of the body, or of the chunk and the end of line after it
	chunked bool
	state   chunkState
	line    []byte // the line that is being read, with what there is of its end
	trailer int    // bytes of trailers
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd // the end of line after a chunk
	trailers
)

const (
	maxChunkLine = 18 // 16 digits, CR and LF
	maxTrailers  = 8 << 10
)

// NewBody makes the Body of a request.
func NewBody(r Request) *Body {
	return &Body{left: max(r.ContentLength, 0), chunked: r.Chunked}
}

// Next takes the next bytes. The first n of them belong to the body; done says that it
// ends there. After an error (an *Error with Status) nothing of p may be passed on.
func (b *Body) Next(p []byte) (n int, done bool, err error) {
	if !b.chunked {
		n = int(min(int64(len(p)), b.left))
		b.left -= int64(n)
		return n, b.left == 0, nil
	}
	for n < len(p) {
		if b.state == chunkData {
			m := int(min(int64(len(p)-n), b.left))
			n += m
			if b.left -= int64(m); b.left == 0 {
				b.state = chunkEnd
			}
			continue
		}
		b.line = append(b.line, p[n])
		n++
		if p[n-1] != '\n' {
			if len(b.line) > b.maxLine() {
				return 0, false, httpError(400, "chunk without an end")
			}
			continue
		}
		line, _, err := cutLine(b.line)
		if err == nil {
			done, err = b.endOfLine(line)
		}
		if err != nil {
			return 0, false, err
		}
		b.line = b.line[:0]
		if done {
			return n, true, nil
		}
	}
	return n, false, nil
}

func (b *Body) maxLine() int {
	switch b.state {
	case chunkSize:
		return maxChunkLine
	case chunkEnd:
		return 1 // CR
	}
	return maxTrailers
}

// endOfLine takes a whole line between chunks, or after them.
func (b *Body) endOfLine(line []byte) (done bool, err error) {
	switch b.state {
	case chunkEnd:
		if len(line) != 0 {
			return false, badRequest("chunk is longer than it says")
		}
		b.state = chunkSize
	case chunkSize:
		if b.left, err = chunkLength(line); err != nil {
			return false, err
		}
		b.state = chunkData
		if b.left == 0 {
			b.state = trailers
		}
	case trailers:
		if len(line) == 0 {
			return true, nil
		}
		if b.trailer += len(line); b.trailer > maxTrailers {
			return false, httpError(431, "too many trailers")
		}
		return false, trailer(string(line))
	}
	return false, nil
}

func chunkLength(line []byte) (int64, error) {
	n, err := strconv.ParseUint(string(line), 16, 63)
	if err != nil {
		return 0, badRequest("malformed size of a chunk")
	}
	return int64(n), nil
}

func trailer(line string) error {
	name, _, ok := strings.Cut(line, ":")
	if !ok || !token(name) {
		return badRequest("malformed trailer")
	}
	if !mayTrail(strings.ToLower(name)) {
		return badRequest("a trailer must not be " + name)
	}
	return nil
}

// mayTrail says whether a field, in lower case, may follow a body: not if it says where
// the request goes or where it ends.
func mayTrail(name string) bool {
	switch name {
	case "host", "content-length", "transfer-encoding", "connection", "upgrade", "trailer":
		return false
	}
	return true
}
