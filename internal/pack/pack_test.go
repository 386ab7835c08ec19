package pack

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	b := Number(nil, 0)
	b = Number(b, math.MaxUint64)
	b = Text(b, "")
	b = Text(b, "a\x00\xff")
	b = Texts(b, []string{"x", "", "yy"})
	b = Texts(b, [][]byte(nil))
	b = Flags(b, true, false, true)
	r := NewReader(b)
	if r.Number(0) != 0 || r.Number(math.MaxUint64) != math.MaxUint64 {
		t.Error("a number changed")
	}
	if len(r.Text()) != 0 || string(r.Text()) != "a\x00\xff" {
		t.Error("a text changed")
	}
	if got := strings.Join(r.Strings(3), ","); got != "x,,yy" {
		t.Errorf("got %q", got)
	}
	if got := r.Texts(9); got != nil {
		t.Errorf("got %q for none", got)
	}
	var f, g, h bool
	if r.Flags(&f, &g, &h); !f || g || !h {
		t.Errorf("got %v %v %v", f, g, h)
	}
	if !r.Done() {
		t.Error("not done")
	}
	for n := range len(b) {
		r := NewReader(b[:n])
		r.Number(0)
		r.Number(math.MaxUint64)
		r.Text()
		r.Text()
		r.Strings(3)
		r.Texts(9)
		r.Flags(&f, &g, &h)
		if r.Done() {
			t.Errorf("the first %d of %d bytes were enough", n, len(b))
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"large number":   func(r *Reader) { r.Number(6) },
		"endless number": func(r *Reader) { *r = *NewReader(bytes.Repeat([]byte{0x80}, 20)); r.Number(math.MaxUint64) },
		"long text":      func(r *Reader) { r.Text() },
		"many texts":     func(r *Reader) { r.Texts(6) },
		"unknown flags":  func(r *Reader) { var f bool; r.Flags(&f, &f) },
	} {
		r := NewReader([]byte{7})
		read(r)
		if r.Done() || !r.bad {
			t.Errorf("%s was taken", name)
		}
		if r.Number(math.MaxUint64) != 0 || r.Text() != nil || r.Texts(9) != nil || r.Done() {
			t.Errorf("%s: something was read after it", name)
		}
	}
	if NewReader([]byte{1}).Done() {
		t.Error("done with a byte left")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 'a', 'b', 'c', 2, 1, 'x', 0, 5})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		for !r.Done() && !r.bad {
			r.Text()
			r.Texts(1 << 10)
			var a, b bool
			r.Flags(&a, &b)
		}
	})
}
