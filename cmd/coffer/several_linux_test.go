package main

import (
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// On a terminal, a part of a name is asked about, and so is --all.
func TestRemoveAsks(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		for _, name := range []string{"fix2", "other"} {
			if out, err := b.Command("exec", "--create", "--name", name, "--", "true").CombinedOutput(); err != nil {
				t.Fatalf("%s", out)
			}
		}
		remove := func(args ...string) *screen {
			s := onScreen(t, 24, 80, b.Command(append([]string{"rm"}, args...)...))
			s.see("[y/N] ")
			return s
		}
		s := remove("fix")
		s.see(`No sandbox is called "fix". Remove fix2?`)
		s.typeIn("n\n")
		s.end(125)
		s = remove("fix")
		s.typeIn("y\n")
		s.end(0)
		s.see("removed sandbox fix2")
		s = remove("--all")
		s.see("Remove 1 of your sandboxes: other?")
		s.typeIn("\n")
		s.end(125)
		s = remove("--all")
		s.typeIn("yes\n")
		s.end(0)
		s.see("removed sandbox other")
	})
}
