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
func parseGitlinks(b []byte) (links []string, err error) {
	for _, hash := range []int{20, 32} {
		links = nil
		err = parseIndex(b, hash, func(_ []byte, mode uint32, name string) {
			if mode == gitlinkMode {
				links = append(links, name)
			}
		})
		if err == nil {
			return links, nil
		}
	}
	return nil, err
}

// Tracked returns the paths of all files in a repository's index, in git's order, which is
// that of their bytes.
func Tracked(path string) (names []string, err error) {
	for _, hash := range []int{20, 32} {
		var all []IndexEntry
		if all, err = Index(path, hash); err == nil {
			for _, e := range all {
				names = append(names, e.Path)
			}
			return names, nil
		}
	}
	return nil, err
}

// An IndexEntry is a file as git's index has it: what the kernel said of it when git last
// looked, and the name of its content.
type IndexEntry struct {
	Path           string
	Mode           uint32
	Inode, Size    uint32
	Mtime, Changed int64 // nanoseconds since 1970
	ID             []byte
}

// Index reads a repository's index whose names of contents have so many bytes.
func Index(path string, hash int) (all []IndexEntry, err error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil, err
	}
	err = parseIndex(b, hash, func(e []byte, mode uint32, name string) {
		n := func(at int) uint32 { return binary.BigEndian.Uint32(e[at:]) }
		all = append(all, IndexEntry{
			Path: name, Mode: mode, Inode: n(20), Size: n(36), ID: e[40 : 40+hash],
			Changed: int64(n(0))*1e9 + int64(n(4)), Mtime: int64(n(8))*1e9 + int64(n(12)),
		})
	})
	return all, err
}

func parseIndex(b []byte, hash int, each func(entry []byte, mode uint32, name string)) error {
	if len(b) < 12 || string(b[:4]) != "DIRC" {
		return errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return errIndex
	}
	rest := b[12:]
	last := ""
	for range count {
		head := 40 + hash + 2
		if len(rest) < head {
			return errIndex
		}
		mode, flags := binary.BigEndian.Uint32(rest[24:]), binary.BigEndian.Uint16(rest[40+hash:])
		if flags&0x4000 != 0 {
			if version == 2 {
				return errIndex
			}
			head += 2 // extended flags
		}
		name, size, ok := entryName(rest, head, version, last)
		if !ok || !plausible(mode) {
			return errIndex
		}
		each(rest, mode, name)
		last, rest = name, rest[size:]
	}
	return nil
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
