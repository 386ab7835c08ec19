package sniff

import "encoding/binary"

// A reader takes TLS values from the front of bytes. After ok is false it is of no
// further use.
type reader []byte

func (r *reader) uint8() (v uint8, ok bool) {
	if len(*r) < 1 {
		return 0, false
	}
	v = (*r)[0]
	*r = (*r)[1:]
	return v, true
}

func (r *reader) uint16() (v uint16, ok bool) {
	if len(*r) < 2 {
		return 0, false
	}
	v = binary.BigEndian.Uint16(*r)
	*r = (*r)[2:]
	return v, true
}

func (r *reader) skip(n int) bool {
	_, ok := r.bytes(n)
	return ok
}

func (r *reader) bytes(n int) (v reader, ok bool) {
	if len(*r) < n {
		return nil, false
	}
	v, *r = (*r)[:n], (*r)[n:]
	return v, true
}

// vector8 takes bytes that have their number before them, in one byte.
func (r *reader) vector8() (v reader, ok bool) {
	n, ok := r.uint8()
	if !ok {
		return nil, false
	}
	return r.bytes(int(n))
}

// vector16 takes bytes that have their number before them, in two bytes.
func (r *reader) vector16() (v reader, ok bool) {
	n, ok := r.uint16()
	if !ok {
		return nil, false
	}
	return r.bytes(int(n))
}
