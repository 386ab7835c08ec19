package terminal

import "testing"

func TestUndo(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text", "hello\r\n", ""},
		{"well-behaved program",
			"\x1b[?1049h\x1b[?1000;1006h\x1b[?2004h\x1b[?25l\x1b[1mx\x1b[m\x1b[>1u\x1b[<u" +
				"\x1b[?25h\x1b[?2004l\x1b[?1006;1000l\x1b[?1049l", ""},
		{"killed program",
			"\x1b[?1049h\x1b[>1u\x1b[?1000;1006h\x1b[?2004h\x1b[?25l\x1b[1mx",
			"\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[<1u\x1b[?1049l\x1b[m\x1b[?25h"},
		{"old alternate screen", "\x1b[?47h", "\x1b[?47l"},
		{"left by another mode", "\x1b[?1049h\x1b[?47l", ""},
		{"dropped sequences count for nothing", "\x1b[?1000;2h\x1b[?1049h\x18\x1b[?1049", "\x1b[?1049l"},
		{"keyboard on both screens", "\x1b[>1u\x1b[>3u\x1b[?1049h\x1b[>5u", "\x1b[<1u\x1b[?1049l\x1b[<2u"},
		{"keyboard popped in part", "\x1b[>1u\x1b[>1u\x1b[>1u\x1b[<2u", "\x1b[<1u"},
		{"keyboard popped too far", "\x1b[>1u\x1b[<9u", ""},
		{"keyboard set", "\x1b[=5u", "\x1b[=0u"},
		{"keyboard set and cleared", "\x1b[=5u\x1b[=0u", ""},
		{"keyboard set within an entry", "\x1b[>1u\x1b[=5u\x1b[<u", ""},
		{"modifyOtherKeys", "\x1b[>4;2m", "\x1b[>4m"},
		{"modifyOtherKeys cleared", "\x1b[>4;2m\x1b[>4m\x1b[>4;1m\x1b[>4;0m", ""},
		{"application keys", "\x1b[?1h\x1b=", "\x1b[?1l\x1b>"},
		{"no wrap", "\x1b[?7l", "\x1b[?7h"},
		{"wrap", "\x1b[?7h", ""},
		{"focus", "\x1b[?1004h", "\x1b[?1004l"},
		{"synchronized comes first", "\x1b[?1004h\x1b[?2026h", "\x1b[?2026l\x1b[?1004l"},
		{"scroll region", "\x1b[2;5r", "\x1b7\x1b[r\x1b8"},
		{"scroll region reset", "\x1b[2;5r\x1b[r", ""},
		{"line drawing", "\x1b(0", "\x1b(B"},
		{"line drawing ended", "\x1b(0\x1b(B", ""},
		{"shifted", "\x0e", "\x0f"},
		{"insert and new line", "\x1b[4h\x1b[20h", "\x1b[4l\x1b[20l"},
		{"cursor shape", "\x1b[5 q", "\x1b[0 q"},
		{"link", "\x1b]8;;http://x\a", "\x1b]8;;\x1b\\"},
		{"link ended", "\x1b]8;;http://x\a\x1b]8;;\a", ""},
		{"progress", "\x1b]9;4;1;50\a", "\x1b]9;4;0\x1b\\"},
		{"progress done", "\x1b]9;4;1;50\a\x1b]9;4;0;0\a", ""},
		{"colours", "\x1b]4;1;red\a\x1b]11;red\x1b\\", "\x1b]104\x1b\\\x1b]111\x1b\\"},
		{"two colours", "\x1b]10;red;blue\a", "\x1b]110\x1b\\\x1b]111\x1b\\"},
		{"colours reset", "\x1b]4;1;red\a\x1b]11;red\x1b\\\x1b]104\a\x1b]111\a", ""},
		{"colour query", "\x1b]11;?\a\x1b]4;1;?\a", ""},
		{"pointer", "\x1b]22;wait\a", "\x1b]22;\x1b\\"},
		{"full reset", "\x1b[?1049h\x1b[?1000h\x1b[>1u\x1b[1m\x1bc", ""},
		{"saved and restored", "\x1b[?1000h\x1b[?1000s\x1b[?1000l\x1b[?1000r", "\x1b[?1000l"},
		{"all restored", "\x1b[?1000h\x1b[?1000l\x1b[?r", "\x1b[?1000l"},
		{"restored, but never set", "\x1b[?1000r\x1b[?r", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := run(t, Options{}, c.in)
			if got := string(f.Undo()); got != c.want {
				t.Errorf("%q\n gives %q\n want  %q", c.in, got, c.want)
			}
		})
	}
}

// TestUndoWithinImage: a session may be torn down without Close.
func TestUndoWithinImage(t *testing.T) {
	f := NewFilter(discard{}, Options{})
	if _, err := f.Write([]byte("\x1b[1m\x1bPq~~")); err != nil {
		t.Fatal(err)
	}
	if got, want := string(f.Undo()), "\x1b\\\x1b[m"; got != want {
		t.Errorf("gives %q, want %q", got, want)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
