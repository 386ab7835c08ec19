package loose

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"hash/adler32"
)

// Pack makes a pack of objects, whose names have so many bytes. Nothing is compressed: who
// takes it apart does that, for each object again.
func Pack(objects []*Object, size int) []byte {
	b := append([]byte("PACK"), 0, 0, 0, 2)
	b = binary.BigEndian.AppendUint32(b, uint32(len(objects)))
	for _, o := range objects {
		// The size is in four bits and then in seven at a time, the lowest first.
		n := len(o.Data)
		c := byte(o.Kind)<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			b = append(b, c|128)
			c = byte(n & 127)
		}
		b = appendStored(append(b, c), o.Data)
	}
	if size == sha256.Size {
		sum := sha256.Sum256(b)
		return append(b, sum[:]...)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// appendStored adds what zlib would, if it did not compress.
func appendStored(b, data []byte) []byte {
	b = append(b, 0x78, 0x01)
	for rest, last := data, false; !last; {
		part := rest[:min(len(rest), 0xffff)]
		rest = rest[len(part):]
		last = len(rest) == 0
		n := uint16(len(part))
		head := byte(0)
		if last {
			head = 1
		}
		b = append(b, head, byte(n), byte(n>>8), byte(^n), byte(^n>>8))
		b = append(b, part...)
	}
	return binary.BigEndian.AppendUint32(b, adler32.Checksum(data))
}
