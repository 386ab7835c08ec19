package sniff

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// MaxHello bounds a ClientHello with its record headers. One with the key shares of
// post-quantum cryptography has about 2 KB.
const MaxHello = 64 << 10

// A Hello is what a ClientHello says about where it wants to go.
type Hello struct {
	SNI string // server name, in lower case, without trailing dot; "" if there is none
	// ECH says that there is an encrypted ClientHello (or the encrypted SNI that came
	// before it). Whether it is a real one, with another server name inside, or just
	// looks so (browsers send such by default; curl, Go, Node and Python do not) cannot
	// be told from outside.
	ECH       bool
	EarlyData bool // data may follow before the server has answered
	Len       int  // how many bytes it took, with record headers
}

const (
	recordChangeCipherSpec = 20
	recordAlert            = 21
	recordHandshake        = 22
	recordApplicationData  = 23
	recordHeartbeat        = 24

	recordHeader    = 5
	handshakeHeader = 4
	maxRecord       = 1 << 14
	// maxRecords bounds the work: a hello of the largest size needs four.
	maxRecords = 16

	clientHello = 1
)

func tlsError(alert uint8, msg string) error { return &Error{Alert: alert, Msg: msg} }

// ParseClientHello reads a ClientHello that may be spread over several records.
// need > 0 says that at least so many more bytes are needed; then hello is empty and
// err nil. An error is an *Error with Alert.
func ParseClientHello(b []byte) (hello Hello, need int, err error) {
	var pieces [maxRecords][]byte
	var start []byte // of the handshake message: as much as says how long it is
	have := 0
	rest := b
	for i := range pieces {
		piece, n, err := handshakeRecord(rest)
		if err != nil {
			return Hello{}, 0, err
		}
		start = append(start, piece[:min(len(piece), handshakeHeader-len(start))]...)
		size, err := helloSize(start)
		switch {
		case err != nil:
			return Hello{}, 0, err
		case len(rest) < recordHeader:
			return Hello{}, n, nil
		case have+len(piece)+n > size && len(start) == handshakeHeader:
			return Hello{}, 0, tlsError(AlertUnexpectedMessage, "something follows the ClientHello in its record")
		case n > 0:
			return Hello{}, n, nil
		}
		rest = rest[recordHeader+len(piece):]
		pieces[i] = piece
		have += len(piece)
		if have == size && len(start) == handshakeHeader {
			msg := piece // one record is the rule: no copy
			if i > 0 {
				msg = bytes.Join(pieces[:i+1], nil)
			}
			if hello, err = parseHello(msg[handshakeHeader:]); err == nil {
				hello.Len = len(b) - len(rest)
			}
			return hello, 0, err
		}
	}
	return Hello{}, 0, tlsError(AlertDecodeError, "ClientHello is in too many pieces")
}

// handshakeRecord returns what is there of the payload of the record that b begins
// with, and how many bytes are missing.
func handshakeRecord(b []byte) (fragment []byte, need int, err error) {
	if len(b) > 0 && b[0] != recordHandshake {
		if b[0] >= 0x80 {
			return nil, 0, tlsError(AlertProtocolVersion, "hello of SSLv2")
		}
		return nil, 0, tlsError(AlertUnexpectedMessage, "not a handshake record")
	}
	if len(b) > 1 && b[1] != 3 || len(b) > 2 && b[2] > 4 {
		return nil, 0, tlsError(AlertProtocolVersion, "record of an unknown version")
	}
	if len(b) < recordHeader {
		return nil, recordHeader - len(b), nil
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	if n == 0 || n > maxRecord {
		return nil, 0, tlsError(AlertRecordOverflow, "handshake record with an impossible length")
	}
	b = b[recordHeader:]
	if len(b) < n {
		return b, n - len(b), nil
	}
	return b[:n], 0, nil
}

// helloSize is the size of the handshake message that start begins, header included,
// or the least that it can be. It must be a ClientHello.
func helloSize(start []byte) (int, error) {
	if len(start) > 0 && start[0] != clientHello {
		return 0, tlsError(AlertUnexpectedMessage, "the first handshake message is not a ClientHello")
	}
	if len(start) < handshakeHeader {
		return handshakeHeader, nil
	}
	size := handshakeHeader + int(start[1])<<16 + int(start[2])<<8 + int(start[3])
	if size > MaxHello-maxRecords*recordHeader {
		return 0, tlsError(AlertDecodeError, "ClientHello is too long")
	}
	return size, nil
}

// parseHello reads the body of a ClientHello.
func parseHello(b cryptobyte.String) (h Hello, err error) {
	const random = 32
	var legacy uint16
	var session, suites, compression, extensions cryptobyte.String
	if !b.ReadUint16(&legacy) || !b.Skip(random) || !b.ReadUint8LengthPrefixed(&session) ||
		!b.ReadUint16LengthPrefixed(&suites) || !b.ReadUint8LengthPrefixed(&compression) ||
		len(session) > 32 || len(suites) == 0 || len(suites)%2 != 0 || len(compression) == 0 {
		return Hello{}, tlsError(AlertDecodeError, "malformed ClientHello")
	}
	if legacy>>8 != 3 {
		return Hello{}, tlsError(AlertProtocolVersion, "ClientHello of an unknown version")
	}
	if len(b) == 0 { // as old as TLS 1.0
		return h, nil
	}
	if !b.ReadUint16LengthPrefixed(&extensions) || len(b) != 0 {
		return Hello{}, tlsError(AlertDecodeError, "malformed ClientHello")
	}
	if err := h.extensions(extensions); err != nil {
		return Hello{}, err
	}
	return h, nil
}

// Extensions that say something about the destination.
const (
	extServerName    = 0
	extEarlyData     = 42
	extECH           = 0xfe0d
	extFirstDraftECH = 0xfe08 // drafts up to 0xfe0c had numbers of their own
	extESNI          = 0xffce
)

// extensions reads the extensions. Servers differ in which of two equal ones they
// take, so there may be one of each only.
func (h *Hello) extensions(b cryptobyte.String) error {
	const most = 128
	var seen []uint16
	for len(b) > 0 {
		var typ uint16
		var data cryptobyte.String
		if !b.ReadUint16(&typ) || !b.ReadUint16LengthPrefixed(&data) || len(seen) == most {
			return tlsError(AlertDecodeError, "malformed extensions")
		}
		if slices.Contains(seen, typ) {
			return tlsError(AlertIllegalParameter, "the same extension twice")
		}
		seen = append(seen, typ)
		var err error
		switch {
		case typ == extServerName:
			err = h.serverName(data)
		case typ == extEarlyData:
			h.EarlyData = true
		case typ >= extFirstDraftECH && typ <= extECH, typ == extESNI:
			h.ECH = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Hello) serverName(b cryptobyte.String) error {
	const hostName = 0
	var list, name cryptobyte.String
	var typ uint8
	if !b.ReadUint16LengthPrefixed(&list) || len(b) != 0 || !list.ReadUint8(&typ) || typ != hostName || !list.ReadUint16LengthPrefixed(&name) {
		return tlsError(AlertDecodeError, "malformed server name")
	}
	if len(list) != 0 {
		return tlsError(AlertIllegalParameter, "several server names")
	}
	sni, ok := hostText(string(name))
	if !ok || numeric(sni) {
		return tlsError(AlertIllegalParameter, "the server name is not a host name")
	}
	h.SNI = sni
	return nil
}

// hostText returns a host name in lower case without its trailing dot, and whether it
// can be one: letters, digits, hyphens and underscores in labels of a possible length.
func hostText(s string) (string, bool) {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return "", false
	}
	label := 0
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			label++
		case c == '.' && label > 0:
			label = 0
		default:
			return "", false
		}
		if label > 63 {
			return "", false
		}
	}
	return strings.ToLower(s), label > 0
}

// numeric says that a host is an IPv4 address in some spelling: its last label is
// a number.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
