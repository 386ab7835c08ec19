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
)

// ErrUnusual is for what only git knows how to change.
var ErrUnusual = errors.New("only git can change this index")

// A Stat is what the kernel said of a file, of every number the lower 32 bits.
type Stat struct {
	ChangedSec, ChangedNsec uint32
	MtimeSec, MtimeNsec     uint32
	Dev, Inode              uint32
	Mode                    uint32 // git's own
	UID, GID                uint32
	Size                    uint32
}

// mtime is when the content changed, in nanoseconds since 1970.
func (s *Stat) mtime() int64 { return int64(s.MtimeSec)*1e9 + int64(s.MtimeNsec) }

// An Entry is a file.
type Entry struct {
	Stat
	ID    string // the name of its content, in raw bytes
	Name  string
	flags uint16
	more  uint16 // flags of later versions
}

// Flags of entries.
const (
	assumed  = 0x8000 // not to be looked at
	extended = 0x4000 // there are more flags
	stage    = 0x3000 // of a merge
	nameMask = 0x0fff

	skipped  = 0x4000 // among them: it is not among the files
	intended = 0x2000 // and: it is to be added
)

// An Index is one in memory.
type Index struct {
	version uint32
	size    int // of names of contents
	Entries []Entry
	trees   *node // which directories are as some tree says; nil if that is not known
}

const statSize = 40

// Parse reads an index in which contents have names of so many bytes.
func Parse(b []byte, size int) (*Index, error) {
	if len(b) < 12+size || string(b[:4]) != "DIRC" {
		return nil, ErrUnusual
	}
	b, sum := b[:len(b)-size], b[len(b)-size:]
	if !bytes.Equal(sum, make([]byte, size)) && !bytes.Equal(sum, checksum(b, size)) {
		return nil, ErrUnusual
	}
	x := &Index{version: binary.BigEndian.Uint32(b[4:]), size: size}
	if x.version < 2 || x.version > 4 {
		return nil, ErrUnusual
	}
	count, rest, last := binary.BigEndian.Uint32(b[8:]), b[12:], ""
	if int64(count)*int64(statSize+size+2) > int64(len(rest)) {
		return nil, ErrUnusual
	}
	x.Entries = make([]Entry, 0, count)
	for range count {
		e, n, ok := x.entry(rest, last)
		if !ok || e.Name <= last {
			return nil, ErrUnusual
		}
		x.Entries = append(x.Entries, e)
		last, rest = e.Name, rest[n:]
	}
	return x, x.extensions(rest)
}

func checksum(b []byte, size int) []byte {
	if size == sha256.Size {
		sum := sha256.Sum256(b)
		return sum[:]
	}
	sum := sha1.Sum(b)
	return sum[:]
}

// entry reads the entry at the beginning of b, and says how long it is.
func (x *Index) entry(b []byte, last string) (e Entry, n int, ok bool) {
	n = statSize + x.size + 2
	if len(b) < n {
		return e, 0, false
	}
	for i, p := range e.numbers() {
		*p = binary.BigEndian.Uint32(b[4*i:])
	}
	e.ID = string(b[statSize : statSize+x.size])
	e.flags = binary.BigEndian.Uint16(b[n-2:])
	if e.flags&extended != 0 {
		if x.version == 2 || len(b) < n+2 {
			return e, 0, false
		}
		e.more = binary.BigEndian.Uint16(b[n:])
		n += 2
	}
	switch { // nothing of a merge, and no directories
	case e.flags&stage != 0, e.more&intended != 0, e.more&^(skipped|intended) != 0:
		return e, 0, false
	case canonical(e.Mode) != e.Mode:
		return e, 0, false
	}
	keep := ""
	if x.version == 4 { // so many bytes of the name before are replaced
		drop, m := offset(b[n:])
		if m == 0 || drop > len(last) {
			return e, 0, false
		}
		keep, n = last[:len(last)-drop], n+m
	}
	end := bytes.IndexByte(b[n:], 0)
	if end < 0 {
		return e, 0, false
	}
	e.Name = keep + string(b[n:n+end])
	if n += end + 1; x.version != 4 {
		n = (n + 7) &^ 7
	}
	return e, n, n <= len(b) && e.Name != "" && int(e.flags&nameMask) == min(len(e.Name), nameMask)
}

// numbers are those of a stat, in their order.
func (s *Stat) numbers() [10]*uint32 {
	return [...]*uint32{&s.ChangedSec, &s.ChangedNsec, &s.MtimeSec, &s.MtimeNsec, &s.Dev, &s.Inode, &s.Mode, &s.UID, &s.GID, &s.Size}
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
	b := append(make([]byte, 0, 12+len(x.Entries)*(statSize+x.size+40)), "DIRC"...)
	b = binary.BigEndian.AppendUint32(b, x.version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(x.Entries)))
	last := ""
	for i := range x.Entries {
		b = x.append(b, &x.Entries[i], last)
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

func (x *Index) append(b []byte, e *Entry, last string) []byte {
	start := len(b)
	for _, p := range e.numbers() {
		b = binary.BigEndian.AppendUint32(b, *p)
	}
	b = append(b, e.ID...)
	b = binary.BigEndian.AppendUint16(b, e.flags)
	if e.flags&extended != 0 {
		b = binary.BigEndian.AppendUint16(b, e.more)
	}
	if x.version == 4 {
		same := 0
		for same < min(len(last), len(e.Name)) && last[same] == e.Name[same] {
			same++
		}
		b = appendOffset(b, len(last)-same)
		return append(append(b, e.Name[same:]...), 0)
	}
	b = append(append(b, e.Name...), 0)
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// offset reads a number of variable length, as packs have them.
func offset(b []byte) (value, n int) {
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

func appendOffset(b []byte, value int) []byte {
	var text [8]byte
	at := len(text) - 1
	text[at] = byte(value & 0x7f)
	for value >>= 7; value > 0; value >>= 7 {
		value--
		at--
		text[at] = byte(value&0x7f) | 0x80
	}
	return append(b, text[at:]...)
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
