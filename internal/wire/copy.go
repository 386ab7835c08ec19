package wire

import "io"

// Most programs say little, and a large buffer for each of them is memory to be cleared
// and collected. So buffers start small.
const (
	LeastBuffer = 4 << 10
	mostBuffer  = MaxData
)

// Grown returns the buffer for the next read, after one of n bytes: a large one, if they
// filled it.
func Grown(buf []byte, n int) []byte {
	if n < len(buf) || len(buf) >= mostBuffer {
		return buf
	}
	return make([]byte, mostBuffer)
}

// Copy passes bytes on until one side has no more or takes no more.
func Copy(dst io.Writer, src io.Reader) {
	buf := make([]byte, LeastBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		buf = Grown(buf, n)
	}
}
