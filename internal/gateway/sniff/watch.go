package sniff

import "encoding/binary"

// A Watch follows what a client sends after its ClientHello, until everything is
// encrypted. The server may ask for a second ClientHello (HelloRetryRequest; a client
// can bring that about by offering no key that the server takes). It has to be like the
// first, but not every server checks that (OpenSSL 3.0 does not): a client could name an allowed server in the
// first and another one in the second.
type Watch struct {
	first Hello
	// The record that is being read: its header, as far as it is there, and how much of
	// its payload is still to come.
	header [recordHeader]byte
	have   int
	left   int
	// start holds the first bytes of a record's payload that may be encrypted, until
	// they can be told from a ClientHello.
	start []byte
	// message is the handshake message that is being read, up to the end of its header
	// or, if it is a ClientHello, to its own end; skip is how much of another message
	// is still to come.
	message []byte
	skip    int

	changed bool // the client has said that its next records are encrypted
	doubt   bool // message came after that: it may be encrypted bytes that look like a ClientHello
	long    bool // message was longer than any ClientHello may be
	early   int  // bytes of early data
}

const (
	// maxEarly is how much early data is followed before a server that has asked for
	// a second hello must have given up; servers set limits of some 16 KB.
	maxEarly = 1 << 20
	// An encrypted record may be a little longer than another.
	maxEncrypted = maxRecord + 2048
	// minFinished is less than any encrypted handshake message has with its checksum.
	minFinished = 24
	// maxHighLength is the upper byte of the length of the longest ClientHello that
	// any server may take.
	maxHighLength = 3
)

// NewWatch makes a Watch of the bytes that follow the Len bytes of a first hello.
func NewWatch(first Hello) *Watch { return &Watch{first: first} }

// Kept is how many bytes the Watch keeps.
func (w *Watch) Kept() int { return cap(w.message) }

// Next takes the next bytes of the client, before they are passed on. done says that no
// ClientHello can come any more and the Watch has done its work. After an error (an
// *Error with Alert) nothing of p may be passed on.
func (w *Watch) Next(p []byte) (done bool, err error) {
	for len(p) > 0 {
		if w.left == 0 {
			n := copy(w.header[w.have:], p)
			w.have += n
			p = p[n:]
			if w.have < recordHeader {
				return false, nil
			}
			if done, err := w.record(); done || err != nil {
				return done, err
			}
			continue
		}
		part := p[:min(len(p), w.left)]
		p = p[len(part):]
		w.left -= len(part)
		if w.header[0] == recordHandshake {
			if done, err := w.payload(part); done || err != nil {
				return done, err
			}
		}
	}
	return false, nil
}

// record looks at a whole record header.
func (w *Watch) record() (done bool, err error) {
	typ, version := w.header[0], w.header[1]
	w.have, w.left, w.start = 0, int(binary.BigEndian.Uint16(w.header[3:])), nil
	switch {
	case version != 3:
		return false, tlsError(AlertProtocolVersion, "record of an unknown version")
	case w.left == 0 || w.left > maxEncrypted:
		return false, tlsError(AlertRecordOverflow, "record with an impossible length")
	case w.doubt && typ == recordApplicationData && !w.first.EarlyData:
		// It was encrypted: no server takes data in the middle of a ClientHello.
		return true, nil
	case w.long:
		return false, tlsError(AlertDecodeError, "ClientHello is too long")
	case (w.message != nil || w.skip > 0) && typ != recordHandshake:
		return false, tlsError(AlertUnexpectedMessage, "a handshake message is interrupted")
	}
	switch typ {
	case recordAlert:
	case recordChangeCipherSpec:
		w.changed = true
	case recordApplicationData:
		w.early += w.left
		return !w.first.EarlyData || w.early > maxEarly, nil
	case recordHandshake:
		if w.changed && w.message == nil && w.left < minFinished {
			return false, tlsError(AlertUnexpectedMessage, "ClientHello in too small pieces")
		}
	default:
		return false, tlsError(AlertUnexpectedMessage, "unexpected record")
	}
	return false, nil
}

// payload takes bytes of a handshake record.
func (w *Watch) payload(p []byte) (done bool, err error) {
	if w.long {
		return false, nil // the next record tells
	}
	if w.changed && w.message == nil {
		w.start = append(w.start, p...)
		if len(w.start) < handshakeHeader {
			return false, nil
		}
		p, w.start = w.start, nil
		// Nothing else of a ClientHello can be relied on: there are servers that do not
		// look at the version in it.
		if p[0] != clientHello || p[1] > maxHighLength {
			return true, nil // encrypted: with TLS 1.2 the handshake ends like this
		}
		w.doubt = true
	}
	for len(p) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(p))
			w.skip -= n
			p = p[n:]
			continue
		}
		n := min(len(p), w.wanted()-len(w.message))
		w.message = append(w.message, p[:n]...)
		p = p[n:]
		hello, err := w.handshake()
		if err != nil || w.long {
			return false, err
		}
		if hello && len(p)+w.left > 0 {
			return false, tlsError(AlertUnexpectedMessage, "something follows the ClientHello in its record")
		}
	}
	return false, nil
}

// wanted is how long the message has to be before handshake can say more about it.
func (w *Watch) wanted() int {
	if len(w.message) < handshakeHeader {
		return handshakeHeader
	}
	return handshakeHeader + w.size()
}

func (w *Watch) size() int {
	return int(w.message[1])<<16 + int(w.message[2])<<8 + int(w.message[3])
}

// handshake looks at the message as far as it is there, and says whether it was a whole
// ClientHello. Of other messages nothing is kept.
func (w *Watch) handshake() (hello bool, err error) {
	switch {
	case len(w.message) < handshakeHeader:
		return false, nil
	case w.message[0] != clientHello:
		w.skip, w.message = w.size(), nil
		return false, nil
	case w.size() > MaxHello && w.doubt: // then it does not end in this record
		w.long, w.message = true, nil
		return false, nil
	case w.size() > MaxHello:
		return false, tlsError(AlertDecodeError, "ClientHello is too long")
	case len(w.message) < w.wanted():
		return false, nil
	}
	second, err := parseHello(w.message[handshakeHeader:])
	w.message, w.doubt = nil, false
	if err != nil {
		return false, err
	}
	if second.SNI != w.first.SNI || second.ECH && !w.first.ECH {
		return false, tlsError(AlertIllegalParameter, "the second ClientHello names another server")
	}
	return true, nil
}
