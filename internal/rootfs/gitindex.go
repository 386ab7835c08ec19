package rootfs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Git's index lists the files of a working tree as git last saw them. It is read by hand,
// because git must not run in a repository of a stranger's before its submodules are known.
//
// An index is "DIRC", a version, a number of entries, the entries in the order of their
// names, extensions and a checksum. An entry is ten numbers, the name of a content, flags
// and a path, which versions 2 and 3 pad, and of which version 4 stores the difference to
// the one before.

// errIndex is about what does not look like an index.
var errIndex = errors.New("not an index that is understood")

const (
	maxIndex      = 1 << 30 // bytes: some 10 million files
	maxIndexNames = 1 << 28 // bytes of all names: those of version 4 can be longer than the index
	indexNumbers  = 40
	indexGitlink  = 0o160000
	indexExtended = 0x4000 // an entry has more flags
)

// An IndexEntry is a file of an index.
type IndexEntry struct {
	Name           string
	ID             string // the name of the content, in raw bytes
	Mode           uint32
	Inode, Size    uint32
	Mtime, Changed int64 // in nanoseconds
}

// Gitlinks returns the paths of the submodules in an index. A missing index has none.
func Gitlinks(path string) (links []string, err error) {
	all, err := Index(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if e.Mode == indexGitlink {
			links = append(links, e.Name)
		}
	}
	return links, err
}

// Tracked returns the paths of all files in an index, in the order of their bytes.
func Tracked(path string) (names []string, err error) {
	all, err := Index(path)
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names, err
}

// Index reads an index. Of one that is split, entries that it has dropped from its shared part are
// among the rest: whoever protects files must not miss one.
func Index(path string) ([]IndexEntry, error) {
	all, base, err := readIndex(path)
	if err != nil || base == "" {
		return all, err
	}
	shared, _, err := readIndex(filepath.Join(filepath.Dir(path), "sharedindex."+base))
	if err != nil {
		return nil, fmt.Errorf("%w: its shared part: %w", errIndex, err)
	}
	if slices.ContainsFunc(all, func(e IndexEntry) bool { return e.Name == "" && e.Mode == indexGitlink }) {
		return nil, errIndex // in place of an entry of the shared part
	}
	all = slices.DeleteFunc(append(all, shared...), func(e IndexEntry) bool { return e.Name == "" })
	slices.SortStableFunc(all, func(a, b IndexEntry) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b IndexEntry) bool { return a.Name == b.Name && a.Mode == b.Mode && a.ID == b.ID }), nil
}

// readIndex reads one file of an index, and the name of its shared part, if it is split.
func readIndex(path string) (all []IndexEntry, base string, err error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil, "", err
	}
	return parseIndex(text)
}

// parseIndex tries both sizes of names of contents, as an index does not say its own.
func parseIndex(text []byte) (all []IndexEntry, base string, err error) {
	for _, size := range []int{20, 32} {
		if all, base, err = parseIndexOf(text, size); err == nil {
			return all, base, nil
		}
	}
	return nil, "", err
}

func parseIndexOf(text []byte, size int) (all []IndexEntry, base string, err error) {
	if len(text) < 12 || string(text[:4]) != "DIRC" {
		return nil, "", errIndex
	}
	version, count, rest := binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:]), text[12:]
	if version < 2 || version > 4 || int64(count)*int64(indexNumbers+size+2) > int64(len(rest)) {
		return nil, "", errIndex
	}
	last, names := "", 0
	for range count {
		e, n, err := parseEntry(rest, version, size, last)
		if err != nil {
			return nil, "", err
		}
		if names += len(e.Name); names > maxIndexNames {
			return nil, "", errIndex
		}
		all, rest, last = append(all, e), rest[n:], e.Name
	}
	base = sharedPart(rest, size)
	if base == "" && slices.ContainsFunc(all, func(e IndexEntry) bool { return e.Name == "" }) {
		return nil, "", errIndex
	}
	return all, base, nil
}

// sharedPart finds the extension of a split index that names its shared part. Each extension has a
// name and a length, and the last is followed by a checksum.
func sharedPart(rest []byte, size int) string {
	for len(rest) >= 8+size {
		n := int64(binary.BigEndian.Uint32(rest[4:]))
		if string(rest[:4]) == "link" && n >= int64(size) {
			if id := rest[8 : 8+size]; len(bytes.Trim(id, "\x00")) > 0 { // otherwise nothing is shared
				return hex.EncodeToString(id)
			}
		}
		if 8+n > int64(len(rest)) {
			break
		}
		rest = rest[8+n:]
	}
	return ""
}

// parseEntry reads one entry and returns its length. last is the name of the one before.
func parseEntry(b []byte, version uint32, size int, last string) (e IndexEntry, n int, err error) {
	if n = indexNumbers + size + 2; len(b) < n {
		return e, 0, errIndex
	}
	number := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	e.Changed = int64(number(0))*1e9 + int64(number(1))
	e.Mtime = int64(number(2))*1e9 + int64(number(3))
	e.Inode, e.Mode, e.Size = number(5), number(6), number(9)
	e.ID = string(b[indexNumbers : indexNumbers+size])
	switch e.Mode >> 12 {
	case 0o10, 0o12, 0o16, 0o4: // a file, a link, a submodule, a directory of a sparse index
	default:
		return e, 0, errIndex
	}
	if binary.BigEndian.Uint16(b[n-2:])&indexExtended != 0 {
		if n += 2; version == 2 || len(b) < n {
			return e, 0, errIndex
		}
	}
	keep := ""
	if version == 4 { // the end of the name before is replaced
		drop, m := indexOffset(b[n:])
		if m == 0 || drop > len(last) {
			return e, 0, errIndex
		}
		keep, n = last[:len(last)-drop], n+m
	}
	end := bytes.IndexByte(b[n:min(len(b), n+maxEntryName)], 0)
	if end < 0 {
		return e, 0, errIndex
	}
	e.Name = keep + string(b[n:n+end])
	if n += end + 1; version != 4 {
		n = (n + 7) &^ 7 // one to eight zero bytes
	}
	if n > len(b) {
		return e, 0, errIndex
	}
	return e, n, nil
}

// maxEntryName is more than any path of a repository has.
const maxEntryName = 64 << 10

// indexOffset reads a number of variable length, as packs have them.
func indexOffset(b []byte) (value, n int) {
	for n < len(b) && n < 4 {
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
