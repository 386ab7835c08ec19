package terminal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// run filters the pieces of an input and returns what passed.
func run(t testing.TB, opts Options, pieces ...string) (string, *Filter) {
	t.Helper()
	var out bytes.Buffer
	f := NewFilter(&out, opts)
	for _, p := range pieces {
		if n, err := f.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", p, n, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return out.String(), f
}

// check runs one case whole, cut in two at every place, and byte by byte.
func check(t *testing.T, opts Options, in, want string, asked bool) {
	t.Helper()
	got, f := run(t, opts, in)
	if got != want {
		t.Errorf("%q\n gives %q\n want  %q", in, got, want)
		return
	}
	if f.Asked() != asked {
		t.Errorf("%q: Asked() = %v", in, f.Asked())
	}
	undo := f.Undo()
	same := func(how string, got string, f *Filter) {
		t.Helper()
		if got != want || f.Asked() != asked || !bytes.Equal(f.Undo(), undo) {
			t.Errorf("%q %s\n gives %q (asked %v, undo %q)\n want  %q (asked %v, undo %q)",
				in, how, got, f.Asked(), f.Undo(), want, asked, undo)
		}
	}
	for i := range len(in) {
		got, f := run(t, opts, in[:i], in[i:])
		same("cut at "+in[:i], got, f)
	}
	got, f = run(t, opts, strings.Split(in, "")...)
	same("by character", got, f)
	var single []string
	for i := range len(in) {
		single = append(single, in[i:i+1])
	}
	got, f = run(t, opts, single...)
	same("by byte", got, f)
}

// TestPass: what full-screen programs send comes through untouched.
func TestPass(t *testing.T) {
	for _, in := range passes {
		check(t, Options{}, in, in, false)
		check(t, Options{}, "a"+in+"b", "a"+in+"b", false)
	}
}

// TestAsk: queries pass untouched and are noted.
func TestAsk(t *testing.T) {
	for _, in := range passesAsking {
		check(t, Options{}, in, in, true)
		check(t, Options{}, "é"+in+"漢", "é"+in+"漢", true)
	}
}

// TestDrop: what is forbidden leaves no trace, wherever it is.
func TestDrop(t *testing.T) {
	for _, in := range drops {
		check(t, Options{}, in, "", false)
		check(t, Options{}, "a"+in+"b", "ab", false)
		check(t, Options{}, "\x1b[1m"+in+"\x1b[m"+in, "\x1b[1m\x1b[m", false)
	}
}

func TestRewrite(t *testing.T) {
	for _, c := range rewrites {
		t.Run(c.name, func(t *testing.T) {
			check(t, Options{}, c.in, c.want, c.asked)
		})
	}
}

func TestClipboard(t *testing.T) {
	allowed := Options{ClipboardWrite: true}
	for _, in := range []string{
		"\x1b]52;c;aGVsbG8=\a",
		"\x1b]52;;aGVsbG8=\x1b\\",
		"\x1b]52;cp;\a",
	} {
		check(t, allowed, in, in, false)
		check(t, Options{}, in, "", false)
	}
	for _, in := range []string{
		"\x1b]52;c;?\a",
		"\x1b]52;c;?\x1b\\",
		"\x1b]52;c;!\a",
		"\x1b]52;x;aGVsbG8=\a",
		"\x1b]52\a",
		"\x1b]52;c\a",
		"\x1b]052;c;?\a",
		"\x1b]5522;type=read;Lg==\x1b\\",
		"\x1b]5522;type=write\x1b\\",
	} {
		check(t, allowed, in, "", false)
	}
}

// TestLong: strings beyond the limit are dropped through their end, images
// are passed on however long, and neither is held in memory.
func TestLong(t *testing.T) {
	long := strings.Repeat("A", 1<<20)
	for _, c := range []struct{ name, in, want string }{
		{"title", "x\x1b]0;" + long + "\ay", "xy"},
		{"title that is never ended", "x\x1b]0;" + long + long, "x"},
		{"title with esc", "x\x1b]0;" + long + "\x1b[1my", "x\x1b[1my"},
		{"device string", "x\x1bP+q" + long + "\x1b\\y", "xy"},
		{"control", "x\x1b[" + strings.Repeat("1;", 1000) + "my", "xy"},
		{"escape", "x\x1b" + strings.Repeat("(", 1000) + "By", "xy"},
		{"sixel", "x\x1bPq" + long + "\x1b\\y", "x\x1bPq" + long + "\x1b\\y"},
		{"iterm", "\x1b]1337;File=inline=1:" + long + "\ay", "\x1b]1337;File=inline=1:" + long + "\ay"},
		{"kitty", "\x1b_Ga=T,f=100,q=2;" + long + "\x1b\\y", "\x1b_Ga=T,f=100,q=2;" + long + "\x1b\\y"},
		{"sixel header", "x\x1bP" + strings.Repeat("1;", 5000) + "q" + long + "\x1b\\y", "xy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			f := NewFilter(&out, Options{})
			for rest := c.in; len(rest) > 0; {
				n := min(len(rest), 1000)
				if _, err := io.WriteString(f, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				if cap(f.seq) > 2*maxString || cap(f.out) > 2*maxString {
					t.Fatalf("holds %d and %d bytes", cap(f.seq), cap(f.out))
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("gives %d bytes, want %d", out.Len(), len(c.want))
			}
		})
	}
}

type failing struct{ err error }

func (w failing) Write(p []byte) (int, error) { return len(p) / 2, w.err }

func TestWriteErrors(t *testing.T) {
	boom := errors.New("boom")
	f := NewFilter(failing{boom}, Options{})
	for range 2 {
		if _, err := f.Write([]byte("text")); err != boom {
			t.Errorf("Write: %v, want %v", err, boom)
		}
	}
	if err := f.Close(); err != boom {
		t.Errorf("Close: %v, want %v", err, boom)
	}

	f = NewFilter(failing{nil}, Options{})
	if _, err := f.Write([]byte("text")); err != io.ErrShortWrite {
		t.Errorf("short write: %v", err)
	}

	_, f = run(t, Options{}, "text")
	if _, err := f.Write([]byte("more")); err != os.ErrClosed {
		t.Errorf("write after close: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func benchmark(b *testing.B, text string) {
	chunk := []byte(strings.Repeat(text, 1+(32<<10)/len(text)))
	f := NewFilter(io.Discard, Options{})
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkASCII(b *testing.B) {
	benchmark(b, "The quick brown fox jumps over the lazy dog, and then does it again.\r\n")
}

func BenchmarkUTF8(b *testing.B) {
	benchmark(b, "Größe, 漢字かな交じり文, и кириллица 🎉\r\n")
}

func BenchmarkColours(b *testing.B) {
	benchmark(b, "\x1b[38;5;114mfunc\x1b[m \x1b[1;34mmain\x1b[0m() {\x1b[K\r\n")
}

func BenchmarkImage(b *testing.B) {
	benchmark(b, "\x1b_Ga=T,f=100,q=2;"+strings.Repeat("QUJD", 1000)+"\x1b\\")
}
