package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// speaking is a program that has the terminal to itself, says something, tells what it
// reads, byte by byte, and takes back what it has said. It ends its words with a mark, so
// that what follows is not the program's.
func speaking(says string, reads int, takesBack string) string {
	tell := `od -An -v -tx1`
	if reads > 4096 {
		tell = `sha256sum`
	}
	return fmt.Sprintf(`was=$(stty -g); stty raw -echo; printf '%s'; printf ready; head -c %d | %s; printf '%s'; printf the-mark; stty "$was"`, says, reads, tell, takesBack)
}

// What full-screen programs say to a terminal, and it to them, is the same through coffer
// as it is without, byte for byte.
func TestTerminalFidelity(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for b := range 256 {
		keys.WriteByte(byte(b))
	}
	for _, c := range []struct{ name, says, typed, back string }{
		{"every byte is a key", "", keys.String(), ""},
		{"Ctrl-C, Ctrl-Z, Ctrl-S, Ctrl-Q and Ctrl-backslash twice", "", "\x03\x1a\x13\x11\x1c\x1c", ""},
		{"mouse", `\033[?1000h\033[?1002h\033[?1003h\033[?1006h`, "\x1b[<0;10;20M\x1b[<32;11;20M\x1b[<0;11;20m\x1b[<64;1;1M", `\033[?1006l\033[?1003l\033[?1002l\033[?1000l`},
		{"old mouse", `\033[?1000h`, "\x1b[M !!\x1b[M#\xff\xff", `\033[?1000l`},
		{"kitty keyboard", `\033[?u\033[>31u\033[=5;2u`, "\x1b[?0u\x1b[97;5u\x1b[97;5:3u\x1b[57441;2u\x1b[127;1u", `\033[<u`},
		{"other keys of xterm", `\033[>4;2m\033[?4m`, "\x1b[>4;2m\x1b[27;5;105~", `\033[>4m`},
		{"bracketed paste", `\033[?2004h`, "\x1b[200~some\r\ntext\x1b[201~", `\033[?2004l`},
		{"a large paste", `\033[?2004h`, "\x1b[200~" + strings.Repeat("0123456789abcdef\r", 12000) + "\x1b[201~", `\033[?2004l`},
		{"a paste with an end in it", `\033[?2004h`, "\x1b[200~a\x1b[201~\rrm -rf\r\x1b[200~b\x1b[201~", `\033[?2004l`},
		{"focus", `\033[?1004h`, "\x1b[I\x1b[O", `\033[?1004l`},
		{"synchronized output", `\033[?2026$p\033[?2026h\033[Htext\033[?2026l`, "\x1b[?2026;2$y", ""},
		{"colours asked for", `\033]10;?\033\\\033]11;?\007\033]4;1;?\007`, "\x1b]10;rgb:ffff/ffff/ffff\x1b\\\x1b]11;rgb:0000/0000/0000\x07\x1b]4;1;rgb:cccc/0000/0000\x07", ""},
		{"true colours and underlines", `\033[38;2;1;2;3m\033[48:2::4:5:6m\033[4:3m\033[58:2::7:8:9mtext\033[0m`, ".", ""},
		{"who are you, where is the cursor", `\033[c\033[>c\033[>q\033[6n\033[14t\033[18t`, "\x1b[?62;22c\x1b[>1;10;0c\x1bP>|xterm(388)\x1b\\\x1b[3;4R\x1b[4;600;800t\x1b[8;24;80t", ""},
		{"alternate screen, cursor, title", `\033]2;a title\007\033[?1049h\033[2J\033[3;4H\033[?25l\033[5 q│é😀\033[1;5r`, ".", `\033[r\033[0 q\033[?25h\033[?1049l`},
		{"theme and size reports", `\033[?2031h\033[?2048h`, "\x1b[?997;1n\x1b[48;24;80;384;640t", `\033[?2048l\033[?2031l`},
		{"links and marks", `\033]8;id=1;https://example.com/a\033\\text\033]8;;\033\\\033]133;A\007\033]9;4;1;50\007\033]9;4;0\007`, ".", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script := speaking(strings.ReplaceAll(c.says, `\\`, `\\\\`), len(c.typed), c.back)
			play := func(t *testing.T, cmd *exec.Cmd) string {
				s := onScreen(t, 24, 80, cmd)
				s.see("ready")
				s.typeIn(c.typed)
				s.see("the-mark")
				s.typeIn("\x1b[0n") // all is well, if coffer should ask
				s.end(0)
				words, _, _ := strings.Cut(s.text(), "the-mark")
				return words
			}
			onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
				outside := exec.Command("sh", "-c", script)
				outside.Env = []string{"PATH=/usr/bin:/bin", "TERM=xterm-256color", "LANG=C.UTF-8"}
				want, got := play(t, outside), play(t, sh(script))
				if want != got {
					t.Errorf("outside the terminal is told\n%q, inside\n%q", want, got)
				}
				if said := unquoted(t, c.says); !strings.HasPrefix(want, said+"ready") {
					t.Errorf("the terminal is told %q, and the program said %q", want, said)
				}
			})
		})
	}
}

// unquoted is what printf makes of a format.
func unquoted(t *testing.T, format string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "printf '"+strings.ReplaceAll(format, `\\`, `\\\\`)+"'").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Of many changes of size in a moment, the last one counts.
func TestTerminalManySizes(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done`))
		s.see("ready")
		for i := range 300 {
			s.resize(uint16(10+i%50), uint16(40+i%100))
		}
		s.resize(61, 173)
		s.see("61 173")
		s.typeIn("\x03")
		s.end(130)
		if text := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s.text()), "^C")); !strings.HasSuffix(text, "61 173") {
			t.Errorf("the last size is not the last that the program hears of: %q", text)
		}
	})
}

// A program that is killed while it has the whole screen leaves the terminal to its user.
func TestTerminalKilledProgram(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`stty raw -echo; printf '\033[?1049h\033[?1000h\033[?1006h\033[?2004h\033[>1u\033[?25l'; kill -9 $$`))
		s.end(137)
		for _, undone := range []string{"\x1b[?1000l", "\x1b[?1006l", "\x1b[?2004l", "\x1b[<1u", "\x1b[?1049l", "\x1b[?25h"} {
			s.see(undone)
		}
	})
}

// Job control of a shell inside: Ctrl-Z stops what is in the foreground, fg goes on.
func TestTerminalJobs(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`exec sh -i`))
		s.typeIn("echo rea''dy\r")
		s.see("ready")
		s.typeIn("sleep 1000\r")
		eventually(t, func() error { return inForeground(s, "sleep") })
		s.typeIn("\x1a")
		s.see("Stopped")
		s.typeIn("echo still he''re\r")
		s.see("still here")
		s.typeIn("fg\r")
		eventually(t, func() error { return sleeps(s) })
		s.typeIn("\x03")
		s.typeIn("echo and ba''ck; exit 4\r")
		s.see("and back")
		s.end(4)
	})
}

// sleeps is satisfied when the program runs, or waits, and is not stopped.
func sleeps(s *screen) error {
	for _, p := range processes() {
		if p.name == "sleep" && p.args == "sleep 1000" && p.sandboxOf(s.cmd) && strings.Contains(p.file("status"), "State:\tS") {
			return nil
		}
	}
	return fmt.Errorf("sleep does not run")
}

// Ctrl-Z on a program without a shell, and one that stops itself: nobody inside could have
// it go on, so it does.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`echo ready; read -r a; echo "<$a>"; kill -STOP $$; echo went on; exit 3`))
		s.see("ready")
		s.typeIn("\x1a")
		s.see("^Z")
		s.typeIn("typed\r")
		s.see("<typed>")
		s.see("went on")
		s.end(3)
	})
}
