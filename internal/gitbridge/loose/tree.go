package loose

import (
	"bytes"
	"encoding/hex"
	"strconv"
)

// Modes of entries.
const (
	Directory = 0o040000
	Gitlink   = 0o160000
)

// An Entry is one of a directory.
type Entry struct {
	Mode uint32
	Name string
	ID   string
}

// ParseTree reads a directory: of each entry the mode as an octal number, a space, the name, a
// zero byte, and the name of the object in so many bytes.
func ParseTree(data []byte, size int) (all []Entry, err error) {
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(name) == 0 || len(rest) < size || bytes.IndexByte(name, '/') >= 0 {
			return nil, ErrUnusual
		}
		m, err := strconv.ParseUint(string(mode), 8, 20)
		if err != nil {
			return nil, ErrUnusual
		}
		all = append(all, Entry{uint32(m), string(name), hex.EncodeToString(rest[:size])})
		data = rest[size:]
	}
	return all, nil
}
