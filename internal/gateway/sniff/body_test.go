package sniff

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// follow gives bytes to a Body, n at a time, and returns how many belong to it.
func follow(r Request, in []byte, n int) (used int, done bool, err error) {
	b := NewBody(r)
	if len(in) == 0 {
		return b.Next(nil)
	}
	for p := range slices.Chunk(in, n) {
		var m int
		m, done, err = b.Next(p)
		used += m
		if done || err != nil {
			break
		}
	}
	return used, done, err
}

func TestBody(t *testing.T) {
	chunked := Request{Chunked: true, ContentLength: -1}
	tests := []struct {
		name   string
		r      Request
		in     string
		used   int // -1: all but "GET"
		done   bool
		status int
	}{
		{"none", Request{}, "GET", 0, true, 0},
		{"none, and nothing follows", Request{}, "", 0, true, 0},
		{"five", Request{ContentLength: 5}, "12345GET", -1, true, 0},
		{"unfinished", Request{ContentLength: 5}, "1234", 4, false, 0},
		{"no chunks", chunked, "0\r\n\r\nGET", -1, true, 0},
		{"chunks", chunked, "3\r\nabc\r\n0a\r\n0123456789\r\nB\r\n0\r\n\r\nGET/ab\r\n0\r\n\r\nGET", -1, true, 0},
		{"trailers", chunked, "1\r\na\r\n0\r\nDigest: x\r\nB: y\r\n\r\nGET", -1, true, 0},
		{"unfinished chunk", chunked, "5\r\nabc", 6, false, 0},
		{"unfinished size", chunked, "5", 1, false, 0},
		{"before the last line", chunked, "0\r\n", 3, false, 0},

		{"extension", chunked, "1;a=b\r\nx\r\n0\r\n\r\n", 0, false, 400},
		{"space after the size", chunked, "1 \r\nx\r\n0\r\n\r\n", 0, false, 400},
		{"bare LF after the size", chunked, "1\nx\r\n0\r\n\r\n", 0, false, 400},
		{"bare LF after the chunk", chunked, "1\r\nx\n0\r\n\r\n", 0, false, 400},
		{"chunk longer than it says", chunked, "1\r\nxy\r\n0\r\n\r\n", 0, false, 400},
		{"empty size", chunked, "\r\n", 0, false, 400},
		{"prefix", chunked, "0x1\r\nx\r\n", 0, false, 400},
		{"sign", chunked, "+1\r\nx\r\n", 0, false, 400},
		{"size too large", chunked, "8000000000000000\r\n", 0, false, 400},
		{"size with many digits", chunked, strings.Repeat("0", 40) + "1\r\n", 0, false, 400},
		{"size without an end", chunked, strings.Repeat("1", 100), 0, false, 400},
		{"folded trailer", chunked, "0\r\nA: b\r\n c\r\n\r\n", 0, false, 400},
		{"trailer without a colon", chunked, "0\r\nGET / HTTP/1.1\r\n\r\n", 0, false, 400},
		{"Host as trailer", chunked, "0\r\nHost: b.example\r\n\r\n", 0, false, 400},
		{"length as trailer", chunked, "0\r\ncontent-length: 5\r\n\r\n", 0, false, 400},
		{"NUL in a trailer", chunked, "0\r\nA: \x00\r\n\r\n", 0, false, 400},
		{"many trailers", chunked, "0\r\n" + strings.Repeat("A: bcdef\r\n", 2000) + "\r\n", 0, false, 431},
		{"long trailer", chunked, "0\r\nA: " + strings.Repeat("b", maxTrailers) + "\r\n\r\n", 0, false, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 7, len(tt.in) + 1} {
				used, done, err := follow(tt.r, []byte(tt.in), n)
				var e *Error
				errors.As(err, &e)
				if tt.status != 0 {
					if e == nil || e.Status != tt.status {
						t.Errorf("in pieces of %d: %#v, want status %d", n, err, tt.status)
					}
					continue
				}
				want := tt.used
				if want < 0 {
					want = len(tt.in) - len("GET")
				}
				if err != nil || done != tt.done || used != want {
					t.Errorf("in pieces of %d: %d, %v, %v, want %d, %v", n, used, done, err, want, tt.done)
				}
			}
		})
	}
}
