// Package pack writes numbers and texts one after the other, and reads them back. It is
// for the few messages that every start waits for: JSON's first use in a process takes
// more than a tenth of a millisecond, at both ends. It imports nothing, for package knock.
package pack

// Number appends a number: seven bits a byte, the lowest first, and a bit in all but the
// last that says that more follow.
func Number(b []byte, n uint64) []byte {
	for ; n >= more; n >>= 7 {
		b = append(b, byte(n)|more)
	}
	return append(b, byte(n))
}

const more = 0x80

// Text appends a text, its length before it.
func Text[T ~string | ~[]byte](b []byte, text T) []byte {
	return append(Number(b, uint64(len(text))), text...)
}

// Texts appends how many there are, and each of them.
func Texts[T ~string | ~[]byte](b []byte, all []T) []byte {
	b = Number(b, uint64(len(all)))
	for _, text := range all {
		b = Text(b, text)
	}
	return b
}

// Flags appends up to 64 truth values.
func Flags(b []byte, flags ...bool) []byte {
	n := uint64(0)
	for i, f := range flags {
		if f {
			n |= 1 << i
		}
	}
	return Number(b, n)
}

// A Reader reads what may be a stranger's bytes. Once something is missing or out of
// bounds it is bad, and gives zeros. Texts share the memory of what is read.
type Reader struct {
	rest []byte
	bad  bool
}

// NewReader reads b.
func NewReader(b []byte) *Reader { return &Reader{rest: b} }

// Done says whether all was read and good.
func (r *Reader) Done() bool { return !r.bad && len(r.rest) == 0 }

func (r *Reader) fail() { r.rest, r.bad = nil, true }

// Number reads one that is at most so large.
func (r *Reader) Number(most uint64) uint64 {
	n := uint64(0)
	for i, b := range r.rest {
		if i == 9 && b > 1 {
			break // it has more than 64 bits
		}
		if n |= uint64(b&^more) << (7 * i); b >= more {
			continue
		}
		if n > most {
			break
		}
		r.rest = r.rest[i+1:]
		return n
	}
	r.fail()
	return 0
}

// Text reads a text.
func (r *Reader) Text() []byte {
	n := r.Number(uint64(len(r.rest)))
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	text := r.rest[:n:n]
	r.rest = r.rest[n:]
	return text
}

// Count reads how many things follow. Each takes a byte at least, so what a liar can
// make us allocate is bounded by what it sent, and by most.
func (r *Reader) Count(most int) int {
	return int(r.Number(uint64(min(len(r.rest), most))))
}

// Texts reads at most so many, nil if there are none.
func (r *Reader) Texts(most int) [][]byte {
	n := r.Count(most)
	if n == 0 {
		return nil
	}
	all := make([][]byte, n)
	for i := range all {
		all[i] = r.Text()
	}
	return all
}

// Strings is Texts with memory of its own.
func (r *Reader) Strings(most int) []string {
	n := r.Count(most)
	if n == 0 {
		return nil
	}
	all := make([]string, n)
	for i := range all {
		all[i] = string(r.Text())
	}
	return all
}

// Flags reads truth values into their places, and takes no others.
func (r *Reader) Flags(flags ...*bool) {
	n := r.Number(1<<len(flags) - 1)
	for i, f := range flags {
		*f = n&(1<<i) != 0
	}
}
