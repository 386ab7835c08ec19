package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestReplay(t *testing.T) {
	for _, c := range []struct{ name, shown, again string }{
		{"text and colours", "a\x1b[31mb\x1b[0m\r\n", "a\x1b[31mb\x1b[0m\r\n"},
		{"questions are not asked again", "a\x1b[6n\x1b[c\x1b[>q\x1b]11;?\x07\x1b[?u\x1b[?2026$p\x1bP+q544e\x1b\\b", "ab"},
		{"nor is anybody notified", "a\x1b]9;hello\x07\x1b]777;notify;a;b\x07\x1b]0;title\x07b", "ab"},
		{"a link", "\x1b]8;;https://example.com\x07x\x1b]8;;\x07", "\x1b]8;;https://example.com\x07x\x1b]8;;\x07"},
		{"the keyboard's protocol", "\x1b[>1ua\x1b[>4;2m", "a\x1b[>1u\x1b[>4;2m"},
		{"as changed, and one of two given back", "\x1b[>1u\x1b[>3u\x1b[<u\x1b[=4;2u", "\x1b[>5u"},
		{"mouse and paste", "\x1b[?1000;1006h\x1b[?2004hx", "\x1b[?1000;1006h\x1b[?2004hx\x1b[?1000h\x1b[?1006h\x1b[?2004h"},
		{"cursor hidden and shown", "\x1b[?25lx\x1b[?25h", "\x1b[?25lx\x1b[?25h"},
		{"a whole screen is drawn by its program", "before\x1b[?1049h\x1b[>1u\x1b[?25ldrawing", "\x1b[?1049h\x1b[>1u\x1b[?25l"},
		{"and what was before it is there afterwards", "before\x1b[?1049hdrawing\x1b[?1049lafter", "before\x1b[?1049hdrawing\x1b[?1049lafter"},
		{"an image is not drawn again", "a\x1bPq#0;2;0;0;0~~\x1b\\b", "ab"},
		{"what never passes", "a\x1b[21tb\x1b]52;c;eA==\x07c", "abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.shown); size += 3 {
				r := NewReplay()
				for p := []byte(c.shown); len(p) > 0; {
					n := min(size, len(p))
					_, _ = r.Write(p[:n])
					p = p[n:]
				}
				if got := string(r.Show()); got != c.again {
					t.Fatalf("in pieces of %d: %q, want %q", size, got, c.again)
				}
			}
		})
	}
}

func TestReplayIsBounded(t *testing.T) {
	r := NewReplay()
	for i := range 100000 {
		fmt.Fprintf(r, "\x1b[32mline %d\x1b[0m\r\n", i)
	}
	got := string(r.Show())
	if len(got) > maxReplay || len(got) < maxReplay/2 || !strings.HasPrefix(got, "\x1b[32mline ") || !strings.HasSuffix(got, "line 99999\x1b[0m\r\n") {
		t.Errorf("%d bytes, from %.40q", len(got), got)
	}
	_, _ = r.Write(bytes.Repeat([]byte("x"), 3*maxReplay))
	if n := len(r.Show()); n > maxReplay {
		t.Errorf("%d bytes of one line", n)
	}
}

// Whatever a program prints, what is shown again has passed the filter, is bounded, and
// leaves a terminal that can be put back.
func FuzzReplay(f *testing.F) {
	f.Add([]byte("a\x1b[31m\x1b[?1049h\x1b[>1u\x1b]8;;x\x07\n"), 3)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		r := NewReplay()
		for rest, n := p, max(1, size%64); len(rest) > 0; {
			m := min(n, len(rest))
			_, _ = r.Write(rest[:m])
			rest = rest[m:]
		}
		shown := r.Show()
		var out bytes.Buffer
		guard := NewFilter(&out, Options{})
		_, _ = guard.Write(shown)
		if !bytes.Equal(out.Bytes(), shown) && guard.state == ground && guard.rune.n == 0 {
			t.Errorf("%q becomes %q", shown, out.Bytes())
		}
		_, _ = guard.Write([]byte("\x1b\\"))
		_, _ = guard.Write(guard.Undo())
	})
}
