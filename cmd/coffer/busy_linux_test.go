package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// What takes long is said: on a terminal in a line that goes away, elsewhere once.
func TestBusy(t *testing.T) {
	t.Parallel()
	released := testbed.Released(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		b.Coffer = released
		stubborn := func(name string) *exec.Cmd {
			// The shell ignores what should end it, and so does what it starts.
			start := b.Command("exec", "--create", "--name", name, "--detach", "--", "sh", "-c", `trap "" TERM; echo ready; while :; do sleep 1000; done`)
			if out, err := start.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			eventually(t, func() error {
				return b.Program("sh", "-c", "coffer logs "+name+" | grep -q ^ready").Run()
			})
			return b.Command("stop", name)
		}
		s := onScreen(t, 24, 80, stubborn("one"))
		first := regexp.MustCompile(`^\r\x1b\[Kcoffer: stopping sandbox one … [1-9][0-9]*s`)
		eventually(t, func() error {
			if !first.MatchString(s.text()) {
				return fmt.Errorf("on the screen: %q", s.text())
			}
			return nil
		})
		s.end(0)
		eventually(t, func() error {
			if !strings.HasSuffix(s.text(), "s\r\x1b[Kcoffer: sandbox one: ended 1 program\r\n") {
				return fmt.Errorf("the line stays: %q", s.text())
			}
			return nil
		})
		out, err := stubborn("two").CombinedOutput()
		if got := string(out); err != nil || got != "coffer: stopping sandbox two …\ncoffer: sandbox two: ended 1 program\n" {
			t.Errorf("said %q, %v", got, err)
		}
	})
}
