// Package gitindex knows the form of git's index, the list of files of a working tree as they
// were when git last looked at them: what an entry is made of, and how it is read. Only git
// writes an index. The reader believes nothing: an index may come with a repository of a
// stranger's, and git must not be run there before its submodules are known.
//
// An index is "DIRC", a version, a number of entries, the entries, in the order of their names,
// extensions, and a sum of it all. An entry is ten numbers, the name of a content, flags, and
// the path, which is padded in versions 2 and 3 and says in version 4 only what is different
// from the one before.
package gitindex

import (
	"errors"
	"strings"
)

// ErrForm is for what does not look like an index.
var ErrForm = errors.New("not an index that is understood")

// A Stat is what the kernel said of a file, of every number the lower 32 bits.
type Stat struct {
	ChangedSec, ChangedNsec uint32
	MtimeSec, MtimeNsec     uint32
	Dev, Inode              uint32
	Mode                    uint32 // git's own
	UID, GID                uint32
	Size                    uint32
}

// Mtime is when the content changed, in nanoseconds since 1970.
func (s *Stat) Mtime() int64 { return int64(s.MtimeSec)*1e9 + int64(s.MtimeNsec) }

// Changed is when anything about the file did.
func (s *Stat) Changed() int64 { return int64(s.ChangedSec)*1e9 + int64(s.ChangedNsec) }

// numbers are those of a stat, in their order.
func (s *Stat) numbers() [10]*uint32 {
	return [...]*uint32{&s.ChangedSec, &s.ChangedNsec, &s.MtimeSec, &s.MtimeNsec, &s.Dev, &s.Inode, &s.Mode, &s.UID, &s.GID, &s.Size}
}

// An Entry is a file.
type Entry struct {
	Stat
	ID    string // the name of its content, in raw bytes
	Name  string
	Flags uint16
	More  uint16 // flags of later versions
}

// Gitlink is the mode of an entry that is a submodule.
const Gitlink = 0o160000

// Flags of entries.
const (
	Assumed  = 0x8000 // not to be looked at
	Extended = 0x4000 // there are more flags
	Stage    = 0x3000 // of a merge
	NameMask = 0x0fff // how long the name is, or longer

	Skipped = 0x4000 // among them: it is not among the files
)

const (
	headSize = 12
	statSize = 40
	// maxNames bounds how long all names are together: those of version 4 can be any size.
	maxNames = 1 << 30
)

// A Reader reads entries one after the other.
type Reader struct {
	Version uint32
	Count   uint32 // of entries that are yet to come

	size  int // of names of contents
	rest  string
	last  string
	names int
}

// NewReader begins to read an index in which contents have names of so many bytes. What is
// read refers to it.
func NewReader(text string, size int) (*Reader, error) {
	if len(text) < headSize || text[:4] != "DIRC" {
		return nil, ErrForm
	}
	r := &Reader{Version: number(text[4:]), Count: number(text[8:]), size: size, rest: text[headSize:]}
	if r.Version < 2 || r.Version > 4 || int64(r.Count)*int64(statSize+size+2) > int64(len(r.rest)) {
		return nil, ErrForm
	}
	return r, nil
}

// Rest is what follows the entries that were read.
func (r *Reader) Rest() string { return r.rest }

// Next reads an entry, of which there must be one.
func (r *Reader) Next() (e Entry, err error) {
	b, n := r.rest, statSize+r.size+2
	if r.Count == 0 || len(b) < n {
		return e, ErrForm
	}
	for i, p := range e.numbers() {
		*p = number(b[4*i:])
	}
	e.ID = b[statSize : statSize+r.size]
	e.Flags = short(b[n-2:])
	if e.Flags&Extended != 0 {
		if r.Version == 2 || len(b) < n+2 {
			return e, ErrForm
		}
		e.More = short(b[n:])
		n += 2
	}
	keep := ""
	if r.Version == 4 { // so many bytes of the name before are replaced
		drop, m := offset(b[n:])
		if m == 0 || drop > len(r.last) {
			return e, ErrForm
		}
		keep, n = r.last[:len(r.last)-drop], n+m
	}
	end := strings.IndexByte(b[n:], 0)
	if end < 0 || len(keep)+end == 0 || len(keep)+end > maxNames-r.names {
		return e, ErrForm
	}
	e.Name = keep + b[n:n+end]
	if n += end + 1; r.Version != 4 {
		n = (n + 7) &^ 7 // with one to eight zero bytes
	}
	if n > len(b) {
		return e, ErrForm
	}
	r.Count, r.rest, r.last, r.names = r.Count-1, b[n:], e.Name, r.names+len(e.Name)
	return e, nil
}

func number(b string) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func short(b string) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }

// offset reads a number of variable length, as packs have them.
func offset(b string) (value, n int) {
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
