// Package index changes git's index, the list of files of a working tree as they were when
// git last looked at them.
//
// It exists because git takes two programs to make an index that of another commit, six
// milliseconds for which a user waits at the end of every command, though mostly a few
// entries change. What it does not know it refuses with [ErrUnusual]: then git does it.
package index

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/cofferhq/coffer/internal/gitindex"
)

// ErrUnusual is for what only git knows how to change.
var ErrUnusual = errors.New("only git can change this index")

// What an index is made of.
type (
	Stat  = gitindex.Stat
	Entry = gitindex.Entry
)

// An Index is one in memory.
type Index struct {
	version uint32
	size    int // of names of contents
	Entries []Entry
	trees   *node // which directories are as some tree says; nil if that is not known
}

// Parse reads an index in which contents have names of so many bytes.
func Parse(b []byte, size int) (*Index, error) {
	if len(b) < size {
		return nil, ErrUnusual
	}
	b, sum := b[:len(b)-size], b[len(b)-size:]
	r, err := gitindex.NewReader(string(b), size)
	if err != nil || !bytes.Equal(sum, make([]byte, size)) && !bytes.Equal(sum, checksum(b, size)) {
		return nil, ErrUnusual
	}
	x := &Index{version: r.Version, size: size, Entries: make([]Entry, 0, r.Count)}
	for last := ""; r.Count > 0; {
		e, err := r.Next()
		if err != nil || e.Name <= last || !usual(&e) {
			return nil, ErrUnusual
		}
		x.Entries = append(x.Entries, e)
		last = e.Name
	}
	return x, x.extensions(b[len(b)-len(r.Rest()):])
}

// usual says that an entry is nothing of a merge, and no directory.
func usual(e *Entry) bool {
	return e.Flags&gitindex.Stage == 0 && e.More&^gitindex.Skipped == 0 && canonical(e.Mode) == e.Mode &&
		int(e.Flags&gitindex.NameMask) == min(len(e.Name), gitindex.NameMask)
}

func checksum(b []byte, size int) []byte {
	if size == sha256.Size {
		sum := sha256.Sum256(b)
		return sum[:]
	}
	sum := sha1.Sum(b)
	return sum[:]
}

// extensions reads what follows the entries. Most of it only helps git, and is of no help any
// more when entries have changed.
func (x *Index) extensions(b []byte) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return ErrUnusual
		}
		name, size := string(b[:4]), binary.BigEndian.Uint32(b[4:])
		if uint64(size) > uint64(len(b)-8) {
			return ErrUnusual
		}
		if name[0] < 'A' || name[0] > 'Z' {
			return ErrUnusual // which nobody may ignore
		}
		if name == "TREE" {
			x.trees = parseTrees(b[8:8+size], x.size)
		}
		b = b[8+size:]
	}
	return nil
}

// Bytes is the index as a file.
func (x *Index) Bytes() []byte {
	b := append(make([]byte, 0, 12+len(x.Entries)*(x.size+80)), "DIRC"...)
	b = binary.BigEndian.AppendUint32(b, x.version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.Entries)))
	last := ""
	for i := range x.Entries {
		b = x.Entries[i].Append(b, x.version, last)
		last = x.Entries[i].Name
	}
	if x.trees != nil {
		trees := x.trees.append(nil)
		b = append(b, "TREE"...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(trees)))
		b = append(b, trees...)
	}
	return append(b, checksum(b, x.size)...)
}

// canonical is the mode by which an index has an entry of a tree, or zero.
func canonical(mode uint32) uint32 {
	switch {
	case mode>>12 == 0o10 && mode&0o100 != 0:
		return 0o100755
	case mode>>12 == 0o10:
		return 0o100644
	case mode == 0o120000, mode == 0o160000:
		return mode
	}
	return 0
}

// odd says whether a name may be one that git does not let into an index. It is asked for
// these rules only where there can be doubt.
func odd(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		plain := strings.ToLower(strings.Map(func(r rune) rune {
			if r >= 0x80 {
				return -1
			}
			return r
		}, name))
		plain = strings.TrimRight(plain, ". ")
		if name == "" || name == "." || name == ".." || plain == ".git" || strings.HasPrefix(plain, "git~") || strings.ContainsAny(name, "\\:\x00") {
			return true
		}
	}
	return false
}
