package terminal

import (
	"regexp"
	"strings"
	"testing"
)

// TestLines: of a log only text and its colours come to the screen, so that no line can
// wipe out or change another.
func TestLines(t *testing.T) {
	lines := Options{Lines: true}
	for _, s := range []string{
		"", "plain text\n", "a\tb\r\nc", "50 %\r100 %\n", "naïve – 漢字 – 🎉\n", "\x1b[1;31mred\x1b[m\n", "\x1b[38:2::1:2:3mx\x1b[0m",
	} {
		check(t, lines, s, s, false)
	}
	for in, want := range map[string]string{
		"one\n\x1b[A\x1b[2Ktwo\n":                       "one\ntwo\n", // the line above
		"one\n\x1b[1;1H\x1b[2Jtwo":                      "one\ntwo",
		"\x1bMx\x1b7y\x1b8z\x1bc":                       "xyz",
		"x\b\b\b\vy\fz\x00\a":                           "xyz",
		"\x1b[?1049hfull screen\x1b[?1049l":             "full screen",
		"\x1b[5S\x1b[3;4r\x1b[10L\x1b[s\x1b[ux":         "x",
		"\x1b]0;title\a\x1b]8;;https://x\x1b\\link":     "link",
		"\x1bPq#0;2;0;0;0~-\x1b\\x\x1b_Ga=T;AAAA\x1b\\": "x",    // images cover what is there
		"\x0elqk\x0f\x1b(0x\x1b(B":                      "lqkx", // another alphabet
		"\x1b[6n\x1b[c\x1b]11;?\a":                      "",     // questions
		"\x1b[>4;2m\x1b[?4m\x1b[1 mx":                   "x",    // end like colours
		"\xc2\x9b2Jx\x9b2J":                             "2Jx2J",
	} {
		check(t, lines, in, want, false)
	}
	// Positive control: programs that have the terminal to themselves may do this.
	if got, _ := run(t, Options{}, "one\n\x1b[A\x1b[2Ktwo\n"); !strings.Contains(got, "\x1b[A\x1b[2K") {
		t.Errorf("%q", got)
	}
	if _, f := run(t, lines, "\x1b[31mnever ends"); string(f.Undo()) == "" {
		t.Error("the colour of a log goes on after it")
	}
}

var onlyLines = regexp.MustCompile(`^(?:[^\x00-\x08\x0b\x0c\x0e-\x1f\x{80}-\x{9f}]|\x1b\[[0-9;:]*m)*$`)

func FuzzLines(f *testing.F) {
	for _, s := range append(passes, passesAsking...) {
		f.Add([]byte(s), uint8(3))
	}
	f.Add([]byte("one\n\x1b[A\x1b[2Ktwo\n"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, wf := run(t, Options{Lines: true}, string(in))
		if !onlyLines.MatchString(strings.ToValidUTF8(whole, "")) {
			t.Fatalf("%q\n passes as %q", in, whole)
		}
		if wf.Asked() || wf.FullScreen() {
			t.Fatalf("%q\n asks, or has the whole screen", in)
		}
		var pieces []string
		for rest := string(in); rest != ""; {
			n := min(len(rest), 1+int(size))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if cut, _ := run(t, Options{Lines: true}, pieces...); cut != whole {
			t.Fatalf("%q\n in one %q\n cut    %q", in, whole, cut)
		}
	})
}

// What nobody reads is not asked; what a shell's terminal is spared is made up for.
func TestUnheard(t *testing.T) {
	const in = "a\x1b[6nb\x1b[?1000hc\x1b[?1000;1049hd\x1b[31me\x1b]11;?\af\x1b[?25lg"
	if got, f := run(t, Options{Unheard: true}, in); got != "abcd\x1b[31mef\x1b[?25lg" || f.Asked() || string(f.Undo()) != "\x1b[m\x1b[?25h" {
		t.Errorf("%q passes, and is undone by %q", got, f.Undo())
	}
}

func TestAside(t *testing.T) {
	var out strings.Builder
	f := NewFilter(&out, Options{})
	f.Write([]byte("a\x1b[?2004h"))
	out.Write(f.Undo())
	f.Aside(true)
	f.Write([]byte("b\x1b[6n\x1b[?1000h\x1b[2J\x1b[31m\x0e\bc\r\n\x1b[?2004l"))
	out.Write(f.Undo())
	f.Aside(false)
	out.Write(f.Redo())
	if want := "a\x1b[?2004h\x1b[?2004lb\x1b[31mc\r\n\x1b[m\x1b[?1000h"; out.String() != want {
		t.Errorf("%q instead of %q", out.String(), want)
	}
}
