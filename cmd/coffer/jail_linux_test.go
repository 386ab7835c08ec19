package main

import (
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// On a terminal it is asked whether a linked worktree's repository may be committed to, and
// only a yes is one; a flag answers beforehand.
func TestParentGitOnTerminal(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		tree := filepath.Join(b.Home, "tree")
		c := b.Program("sh", "-ec", `git init -q "$1/repo"; cd "$1/repo"; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 1; git worktree add -q "$1/tree"`, "sh", b.Home)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		run := func(flags ...string) *screen {
			args := append([]string{"jail", "-q", "-C", tree, "--net", "none"}, flags...)
			return onScreen(t, 24, 80, b.Command(append(args, "--", "sh", "-c",
				"git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 2 && echo it is committed || echo it is refused")...))
		}
		for answer, want := range map[string]string{"y": "it is committed", "yes": "it is committed", "": "it is refused", "n": "it is refused", "yep": "it is refused"} {
			s := run()
			s.see("Let the program commit to it? [y/N]")
			s.typeIn(answer + "\n")
			s.see(want)
			s.end(0)
		}
		for flag, want := range map[string]string{"--allow-parent-git": "it is committed", "--no-allow-parent-git": "it is refused", "--git=read": "it is refused"} {
			s := run(flag)
			s.see(want)
			s.end(0)
		}
	})
}
