package main

import (
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// On a terminal, a secret is asked for and not shown, and printed only if that is asked for.
func TestSecretOnTerminal(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := onScreen(t, 24, 80, b.Command("secret", "set", "TOKEN"))
		s.see("Value of TOKEN (it is not shown): ")
		s.typeIn("hunter2\r")
		s.see("the secret TOKEN is in your vault")
		s.end(0)
		if strings.Contains(s.text(), "hunter") {
			t.Errorf("it is shown: %q", s.text())
		}

		s = onScreen(t, 24, 80, b.Command("secret", "get", "TOKEN"))
		s.see("the secret would be seen on the screen")
		s.end(125)
		s = onScreen(t, 24, 80, b.Command("secret", "get", "TOKEN", "--show"))
		s.see("hunter2\r\n")
		s.end(0)

		// Who gives up has a terminal that shows what is typed, and the old secret.
		s = onScreen(t, 24, 80, b.Command("secret", "set", "TOKEN"))
		s.see("not shown): ")
		if s.settings().Lflag&unix.ECHO != 0 {
			t.Error("what is typed would be shown")
		}
		s.typeIn("other")
		s.typeIn("\x03")
		s.end(130)
		if s.settings().Lflag&unix.ECHO == 0 {
			t.Error("the terminal still hides what is typed")
		}
		if out, err := b.Command("secret", "get", "TOKEN").Output(); err != nil || string(out) != "hunter2" {
			t.Errorf("%q, %v", out, err)
		}
	})
}
