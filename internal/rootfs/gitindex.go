package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
)

// maxIndex bounds how large an index is read: some 10 million files.
const maxIndex = 1 << 30

// errIndex is for what does not look like an index.
var errIndex = errors.New("not an index that is understood")

// Gitlinks returns the paths of submodules in a repository's index. No index means that
// there are none.
func Gitlinks(path string) ([]string, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil, err
	}
	return parseGitlinks(b)
}

// The mode by which an index entry is a submodule.
const gitlinkMode = 0o160000

// parseGitlinks reads an index of version 2, 3 or 4. An entry is 40 bytes of times and
// numbers, the mode among them, an object's name of 20 bytes (or 32, which is told from
// 20 by trying), flags, and the path.
func parseGitlinks(b []byte) ([]string, error) {
	links, err := parseIndex(b, 20)
	if err != nil {
		links, err = parseIndex(b, 32)
	}
	return links, err
}

func parseIndex(b []byte, hash int) (links []string, err error) {
	if len(b) < 12 || string(b[:4]) != "DIRC" {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	rest := b[12:]
	last := ""
	for range count {
		head := 40 + hash + 2
		if len(rest) < head {
			return nil, errIndex
		}
		mode, flags := binary.BigEndian.Uint32(rest[24:]), binary.BigEndian.Uint16(rest[40+hash:])
		if flags&0x4000 != 0 {
			if version == 2 {
				return nil, errIndex
			}
			head += 2 // extended flags
		}
		name, size, ok := entryName(rest, head, version, last)
		if !ok || !plausible(mode) {
			return nil, errIndex
		}
		if mode == gitlinkMode {
			links = append(links, name)
		}
		last, rest = name, rest[size:]
	}
	return links, nil
}

// plausible says whether a mode is one that git writes: a file, a link, a submodule, or
// a directory of a sparse index.
func plausible(mode uint32) bool {
	return mode>>12 == 0o10 || mode>>12 == 0o12 || mode>>12 == 0o16 || mode>>12 == 0o4
}

// entryName reads the path of the entry at the start of b, and the entry's size.
func entryName(b []byte, head int, version uint32, last string) (name string, size int, ok bool) {
	if len(b) < head {
		return "", 0, false
	}
	rest, keep := b[head:], ""
	if version == 4 {
		// So many bytes of the previous path are replaced by what follows.
		drop, n := offset(rest)
		if n == 0 || drop > len(last) {
			return "", 0, false
		}
		keep, rest, head = last[:len(last)-drop], rest[n:], head+n
	}
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		return "", 0, false
	}
	size = head + end + 1
	if version != 4 {
		size = (head + end + 8) &^ 7 // padded with 1 to 8 zero bytes
	}
	return keep + string(rest[:end]), size, end > 0 && size <= len(b)
}

// offset reads a number of variable length, as packs have them.
func offset(b []byte) (value, n int) {
	for n < len(b) && n < 5 {
		c := b[n]
		n++
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
		value++
	}
	return 0, 0
}
