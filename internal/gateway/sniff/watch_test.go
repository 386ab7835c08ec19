package sniff

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// watch gives bytes to a Watch, n at a time.
func watch(first Hello, b []byte, n int) (done bool, err error) {
	w := NewWatch(first)
	for p := range slices.Chunk(b, n) {
		if done, err = w.Next(p); done || err != nil {
			break
		}
	}
	return done, err
}

func TestSecondHello(t *testing.T) {
	const ccs, data = "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\x00\x05datum"
	first := Hello{SNI: "a.example"}
	same, other := hello(serverName("a.example")), hello(serverName("b.example"))
	// What follows the change of ciphers with TLS 1.2: a key exchange before, and
	// an encrypted message after it.
	exchange := "\x16\x03\x03" + vector(2, "\x10"+vector(3, strings.Repeat("k", 60)))
	finished := "\x16\x03\x03" + vector(2, strings.Repeat("\x00", 8)+strings.Repeat("e", 32))
	long := "\x16\x03\x03" + vector(2, "\x01\x02\x00\x00\x03\x03"+strings.Repeat("x", 100))
	start := "\x16\x03\x03" + vector(2, "\x01\x00\x77"+strings.Repeat("e", 37))
	version := func(b []byte, major byte) string {
		b = bytes.Clone(b)
		b[recordHeader+handshakeHeader] = major
		return string(b)
	}
	alike := "\x16\x03\x03" + vector(2, "\x01\x77"+strings.Repeat("e", 38))

	tests := []struct {
		name  string
		first Hello
		in    string
		done  bool
		alert uint8
	}{
		{"data", first, data, true, 0},
		{"the same again", first, string(same), false, 0},
		{"the same again after a change of ciphers, then data", first, ccs + string(same) + data, true, 0},
		{"TLS 1.2", first, exchange + ccs + finished, true, 0},
		{"TLS 1.2, resumed", first, ccs + finished, true, 0},
		{"TLS 1.2, first byte as of a hello", first, ccs + alike, true, 0},
		{"key exchange in pieces", first, string(pieces([]byte(exchange), 7)) + ccs + finished, true, 0},
		{"TLS 1.2 with data", first, exchange + ccs + finished + data + string(other), true, 0},
		{"alert", first, "\x15\x03\x03\x00\x02\x02\x28", false, 0},
		{"early data", Hello{SNI: "a.example", EarlyData: true}, data + string(same) + data, false, 0},
		{"much early data", Hello{EarlyData: true}, strings.Repeat("\x17\x03\x03"+vector(2, strings.Repeat("d", 16000)), 66), true, 0},

		{"another name", first, string(other), false, AlertIllegalParameter},
		{"another name after a change of ciphers", first, ccs + string(other), false, AlertIllegalParameter},
		{"another name in pieces", first, string(pieces(other, 10)), false, AlertIllegalParameter},
		{"another name in pieces after a change of ciphers", first, ccs + string(pieces(other, 30)), false, AlertIllegalParameter},
		{"tiny pieces after a change of ciphers", first, ccs + string(pieces(other, 3)), false, AlertUnexpectedMessage},
		{"another name after the same one", first, string(same) + string(other), false, AlertIllegalParameter},
		{"another name after early data", Hello{SNI: "a.example", EarlyData: true}, data + string(other), false, AlertIllegalParameter},
		{"another name after an alert", first, "\x15\x03\x03\x00\x02\x01\x5a" + string(other), false, AlertIllegalParameter},
		{"another name after a key exchange", first, exchange + string(other), false, AlertIllegalParameter},
		{"another name in the record of a key exchange", first,
			"\x16\x03\x03" + vector(2, exchange[recordHeader:], string(other[recordHeader:])), false, AlertIllegalParameter},
		{"no name", first, string(hello()), false, AlertIllegalParameter},
		{"a name where there was none", Hello{}, string(same), false, AlertIllegalParameter},
		{"encrypted", first, string(hello(serverName("a.example"), extension(extECH, "x"))), false, AlertIllegalParameter},
		{"encrypted like the first", Hello{SNI: "a.example", ECH: true}, string(hello(serverName("a.example"), extension(extECH, "x"))), false, 0},
		{"malformed", first, "\x16\x03\x03" + vector(2, "\x01"+vector(3, "xx")), false, AlertDecodeError},
		{"very long", first, long, false, AlertDecodeError},
		{"very long after a change of ciphers", first, ccs + long + long, false, AlertDecodeError},
		{"TLS 1.2, like a very long hello", first, ccs + long + data, true, 0},
		{"TLS 1.2, like the start of a hello", first, ccs + start + data, true, 0},
		{"like the start of a hello, then an alert", first, ccs + start + "\x15\x03\x03\x00\x02\x01\x5a", false, AlertUnexpectedMessage},
		{"like the start of a hello, then early data", Hello{EarlyData: true}, ccs + start + data, false, AlertUnexpectedMessage},
		// OpenSSL does not look at the version in a second hello.
		{"another name and version after a change of ciphers", first, ccs + version(other, 4), false, AlertProtocolVersion},
		{"another name and version ff", first, ccs + version(other, 0xff), false, AlertProtocolVersion},
		{"another name and version, in pieces", first, ccs + string(pieces([]byte(version(other, 4)), 30)), false, AlertProtocolVersion},
		{"interrupted", first, string(pieces(same, 20)[:25]) + data, false, AlertUnexpectedMessage},
		{"followed in its record", first, "\x16\x03\x03" + vector(2, string(same[5:]), string(other[5:])), false, AlertUnexpectedMessage},
		{"an unknown record", first, "\x63\x03\x03\x00\x01x", false, AlertUnexpectedMessage},
		{"not TLS", first, "GET / HTTP/1.1\r\n", false, AlertProtocolVersion},
		{"an empty record", first, "\x16\x03\x03\x00\x00", false, AlertRecordOverflow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 7, 64, len(tt.in)} {
				done, err := watch(tt.first, []byte(tt.in), n)
				var e *Error
				errors.As(err, &e)
				if done != tt.done || (e == nil) != (tt.alert == 0) || e != nil && e.Alert != tt.alert {
					t.Errorf("in pieces of %d: done %v, %#v", n, done, err)
				}
			}
		})
	}
}

// A real second hello, with its name changed.
func TestRecordedSecondHello(t *testing.T) {
	b := recorded(t, "go-1.26-retry")
	first, _, err := ParseClientHello(b)
	if err != nil {
		t.Fatal(err)
	}
	rest := b[first.Len:]
	changed := bytes.Replace(rest, []byte("www.example.com"), []byte("www.example.org"), 1)
	if bytes.Equal(rest, changed) {
		t.Fatal("there is no second hello")
	}
	if done, err := watch(first, rest, 100); !done || err != nil {
		t.Errorf("as it was: done %v, %v", done, err)
	}
	if _, err := watch(first, changed, 100); err == nil {
		t.Error("changed: no error")
	}
}
