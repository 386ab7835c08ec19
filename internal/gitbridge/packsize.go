package gitbridge

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What a pack would take up is not to be seen from its size: a delta of a few bytes can
// stand for a file of gigabytes. But every object in it says how large it is, and git has
// checked that it is so.

// errPack is wrapped by every error about a pack that is not one.
var errPack = errors.New("not a pack")

// errMuch is that a pack is too much to be taken apart.
var errMuch = errors.New("a pack that stays one")

// The kinds of objects in a pack that are made of others.
const (
	packOffsetDelta = 6
	packRefDelta    = 7
)

// unpackedSize adds up how large the objects of a pack are, and fails with errMuch as soon
// as they are more, or larger, than they may be. It reads no further than to there.
// idSize is the size of an object's name.
func unpackedSize(pack io.Reader, idSize, maxObjects, maxBytes int64) (total int64, err error) {
	in := bufio.NewReader(pack) // from which zlib takes no byte too many
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, fmt.Errorf("%w: %w", errPack, err)
	}
	if string(head[:4]) != "PACK" {
		return 0, errPack
	}
	count := int64(binary.BigEndian.Uint32(head[8:]))
	if count > maxObjects {
		return 0, errMuch
	}
	for range count {
		size, err := objectSize(in, idSize, maxBytes-total)
		if err != nil {
			return 0, err
		}
		if total += size; total > maxBytes {
			return 0, errMuch
		}
	}
	return total, nil
}

// objectSize reads one object.
func objectSize(in *bufio.Reader, idSize, limit int64) (size int64, err error) {
	b, err := in.ReadByte()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errPack, err)
	}
	kind := b >> 4 & 7
	size = int64(b & 15)
	if b&128 != 0 {
		rest, err := binary.ReadUvarint(in)
		if err != nil || rest > 1<<50 {
			return 0, errMuch
		}
		size |= int64(rest) << 4
	}
	if size > limit {
		return 0, errMuch
	}
	switch kind {
	case packOffsetDelta:
		for b = 128; b&128 != 0; {
			if b, err = in.ReadByte(); err != nil {
				return 0, fmt.Errorf("%w: %w", errPack, err)
			}
		}
	case packRefDelta:
		if _, err := io.CopyN(io.Discard, in, idSize); err != nil {
			return 0, fmt.Errorf("%w: %w", errPack, err)
		}
	}
	z, err := zlib.NewReader(in)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errPack, err)
	}
	// One byte more than it says is enough to see that it lies.
	data := bufio.NewReader(io.LimitReader(z, size+1))
	large := size
	if kind == packOffsetDelta || kind == packRefDelta {
		if large, err = deltaSize(data); err != nil {
			return 0, err
		}
	}
	if _, err := io.Copy(io.Discard, data); err != nil {
		return 0, fmt.Errorf("%w: %w", errPack, err)
	}
	if n, err := z.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return 0, fmt.Errorf("%w: an object is longer than it says", errPack)
	}
	return large, nil
}

// deltaSize is how large the object is that a delta makes: its second number, after the
// size of what it is made from.
func deltaSize(delta io.ByteReader) (int64, error) {
	if _, err := binary.ReadUvarint(delta); err != nil {
		return 0, fmt.Errorf("%w: %w", errPack, err)
	}
	size, err := binary.ReadUvarint(delta)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errPack, err)
	}
	if size > 1<<50 {
		return 0, errMuch
	}
	return int64(size), nil
}
