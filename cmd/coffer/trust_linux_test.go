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
		config := "[env]\npass = [\"A\"]\n[mounts.x]\nsource = \"/usr/share\"\ntarget = \"/x\\u001b]0;evil\\u0007\"\n"
		if err := os.WriteFile(filepath.Join(b.Work, "coffer.toml"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		run := func() *screen {
			return onScreen(t, 24, 80, b.Command("run", "--", "sh", "-c", "read x; echo the program got: $x"))
		}
		s := run()
		s.see("[y/N] ")
		s.see("your variable A is passed on")
		s.see(`/x\x1b]0;evil\x07`)
		s.typeIn("n\n")
		s.end(125)
		s.see("you did not agree")
		if strings.Contains(s.text(), "\x1b]0;evil") {
			t.Errorf("the terminal was told: %q", s.text())
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
	})
}
