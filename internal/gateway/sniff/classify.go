// Package sniff reads what a program says first on a connection: a TLS ClientHello or
// the head of an HTTP/1 request. It says where the bytes want to go, and for HTTP where
// the request ends, so that the gateway can hold that against what was decided.
//
// The far end will read the same bytes with another parser. Where two parsers can
// differ (which of two Host fields counts, whether a space may stand before a colon,
// where a body ends) a program could make the gateway see one destination and the
// server another. So nothing that can be read in two ways is accepted: every such
// shape is an [Error], even where the standards would let a server be generous.
// A parser of a library is made to accept what can be accepted; that is why these are
// written by hand, and tests hold every request they accept against net/http.
//
// All parsers are pure: they look at bytes read so far and say what it is, or that more
// is needed. A prefix of what is accepted always needs more. They keep no reference to
// the bytes they were given.
package sniff

import (
	"bytes"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// A Kind is what the first bytes of a connection are.
type Kind uint8

const (
	Unknown   Kind = iota // none of the below: raw TCP
	NeedMore              // too few bytes to say
	TLS                   // TLS, well formed or not: ParseClientHello
	HTTP                  // an HTTP/1 request, well formed or not: ParseHTTP
	H2Preface             // HTTP/2 without TLS
	SSH                   // an SSH identification line
	Proxied               // the PROXY protocol: any other may follow its first line
)

func (k Kind) String() string {
	return [...]string{"unknown", "need more", "TLS", "HTTP", "HTTP/2 without TLS", "SSH", "the PROXY protocol"}[k]
}

// An Error says why first bytes are refused, and what the program that sent them
// may be told.
type Error struct {
	Status int   // for HTTP: 400, 431, 501 or 505
	Alert  uint8 // for TLS: the description of an alert
	Msg    string
}

func (e *Error) Error() string { return e.Msg }

const (
	preface  = "PRI * HTTP/2.0\r\n" // and more, but nothing else begins so
	sshIdent = "SSH-"
	proxied  = "PROXY "
	proxied2 = "\r\n\r\n\x00\r\nQUIT\n" // the same in binary
)

// Classify says what b, the first bytes of a connection, begins.
//
// Bytes that a forgiving server would still take for TLS or HTTP are TLS or HTTP, so
// that they meet the strict parser and are not passed on as an unknown protocol: an
// alert before the ClientHello, an SSLv2 hello, empty lines before a request, a tab
// after the method.
func Classify(b []byte) Kind {
	if len(b) == 0 {
		return NeedMore
	}
	switch {
	case b[0] >= recordChangeCipherSpec && b[0] <= recordHeartbeat:
		switch {
		case len(b) < 2:
			return NeedMore
		case b[1] == 3:
			return TLS
		}
		return Unknown
	case b[0] >= 0x80:
		return classifySSLv2(b)
	case begins(b, preface):
		return whole(b, preface, H2Preface)
	case begins(b, proxied):
		return whole(b, proxied, Proxied)
	case begins(b, proxied2):
		return whole(b, proxied2, Proxied)
	case begins(b, sshIdent):
		return whole(b, sshIdent, SSH)
	}
	return classifyText(b)
}

// begins says that b and s do not differ where both have bytes.
func begins(b []byte, s string) bool {
	n := min(len(b), len(s))
	return string(b[:n]) == s[:n]
}

func whole(b []byte, s string, k Kind) Kind {
	if len(b) < len(s) {
		return NeedMore
	}
	return k
}

// classifySSLv2 looks for a ClientHello as SSLv2 had it: two bytes of length with the
// upper bit set, 1, and a version 0.2 or 3.x.
func classifySSLv2(b []byte) Kind {
	switch {
	case len(b) > 2 && b[2] != 1, len(b) > 3 && b[3] != 0 && b[3] != 3:
		return Unknown
	case len(b) < 5:
		return NeedMore
	case b[3] == 0 && b[4] != 2:
		return Unknown
	}
	return TLS
}

// classifyText looks for a request line: it has a version of HTTP in it, or it begins
// with a method that no other protocol has. CONNECT is not one of those (NATS), nor is
// OPTIONS (RTSP).
func classifyText(b []byte) Kind {
	b = b[:min(len(b), MaxHTTP)]
	line := bytes.TrimLeft(b, " \t\v\f\r\n")
	if len(line) > 0 && !httpguts.IsTokenRune(rune(line[0])) {
		return Unknown
	}
	line, _, ended := bytes.Cut(line, []byte("\n"))
	word := line[:len(line)-len(bytes.TrimLeftFunc(line, func(r rune) bool { return 'A' <= r && r <= 'Z' }))]
	spaced := len(word) > 0 && len(line) > len(word) && strings.IndexByte(" \t\v\f\r", line[len(word)]) >= 0
	if spaced {
		switch string(word) {
		case "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE":
			return HTTP
		}
	}
	control := bytes.IndexFunc(line, func(r rune) bool { return r < '\t' || r > '\r' && r < ' ' || r == 0x7f })
	if control >= 0 {
		line = line[:control]
	}
	switch {
	case len(line) > 0 && bytes.Contains(bytes.ToUpper(line[1:]), []byte("HTTP/")):
		return HTTP
	case control >= 0 && spaced: // no text, but some server may think so
		return HTTP
	case control >= 0, ended:
		return Unknown
	case len(b) == MaxHTTP: // for ParseHTTP to refuse
		return HTTP
	}
	return NeedMore
}
