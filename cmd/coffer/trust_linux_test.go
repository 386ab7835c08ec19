package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// On a terminal the user is asked, once. What follows the answer is the program's, and
// what the repository writes is shown but not obeyed.
func TestTrustOnTerminal(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		config := "[env]\npass = [\"A\"]\n[mounts.x]\nsource = \"/usr/share\"\ntarget = \"/x\\u001b]0;evil\\u0007\\u202e\\u0430\"\n"
		if err := os.WriteFile(filepath.Join(b.Work, "coffer.toml"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		run := func() *screen {
			return onScreen(t, 24, 80, b.Command("run", "--", "sh", "-c", "read x; echo the program got: $x"))
		}
		s := run()
		s.see("[y/N] ")
		s.see(`env.pass = ["A"]`)
		s.see(`/x\x1b]0;evil\x07\u202e\u0430`)
		s.typeIn("n\n")
		s.end(125)
		s.see("you did not agree")
		if strings.Contains(s.text(), "\x1b]0;evil") {
			t.Errorf("the terminal was told: %q", s.text())
		}
		// Ctrl-C is no answer, and takes back what was typed.
		for _, keys := range []string{"\x03", "y\x03"} {
			s = run()
			s.see("[y/N] ")
			s.typeIn(keys)
			s.end(130)
		}
		s = run()
		s.see("[y/N] ")
		s.typeIn("y\nhello\n")
		s.see("the program got: hello")
		s.end(0)
		s = run()
		s.typeIn("again\n")
		s.see("the program got: again")
		s.end(0)
		if strings.Contains(s.text(), "[y/N]") {
			t.Errorf("asked again: %q", s.text())
		}
		s = onScreen(t, 24, 80, b.Command("trust", "--revoke"))
		s.end(0)
		s = onScreen(t, 24, 80, b.Command("trust"))
		s.see("[y/N] ")
		s.typeIn("\x03")
		s.end(130)
		s = onScreen(t, 24, 80, b.Command("trust", "--list"))
		s.see("not agreed to anything")
		s.end(0)
		s = onScreen(t, 24, 80, b.Command("trust"))
		s.see("[y/N] ")
		s.typeIn("y\n")
		s.see("coffer: trusted:")
		s.end(0)
	})
}
