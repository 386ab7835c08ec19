package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// On a terminal, a diff goes through the pager that git would take; and what a stranger's
// file says to terminals is spelled out before the pager sees it.
func TestDiffPager(t *testing.T) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		command := func(env string, args ...string) *exec.Cmd {
			c := b.Command(args...)
			c.Env = append(c.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1", "TERM=xterm")
			c.Env = append(c.Env, strings.Split(env, ";")...)
			return c
		}
		// Enough for a pager that leaves to be noticed.
		make := `printf 'one\033[2Jtwo\n' >new; i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >long`
		if out, err := command("", "exec", "--create", "--workspace", "cow", "--name", "s", "--", "sh", "-c", make).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// A sandbox may have written what lies in the directory in which the user is.
		if err := os.WriteFile(filepath.Join(b.Work, "planted"), []byte("#!/bin/sh\nexec sed s/^/any:/\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, env  string
			args, want []string
			not        string
		}{
			{"GIT_PAGER", "GIT_PAGER=sed s/^/git:/;PAGER=sed s/^/any:/", []string{"new"}, []string{"git:diff --git a/new b/new", `git:+one\x1b[2Jtwo`}, "any:"},
			{"PAGER", "PAGER=sed s/^/any:/", []string{"new"}, []string{`any:+one\x1b[2Jtwo`}, ""},
			{"stat", "PAGER=sed s/^/any:/", []string{"--stat"}, []string{"any: long"}, ""},
			{"left early", "PAGER=sed -n s/^/any:/p;GIT_PAGER=head -n 1", nil, []string{"diff --git"}, "any:"},
			{"none", "PAGER=sed s/^/any:/", []string{"--no-pager", "new"}, []string{"\n" + `+one\x1b[2Jtwo`}, "any:"},
			{"none by name", "PAGER=sed s/^/any:/;GIT_PAGER=", []string{"new"}, []string{"\n" + `+one\x1b[2Jtwo`}, "any:"},
			{"cat", "PAGER=cat", []string{"new"}, []string{`+one\x1b[2Jtwo`}, ""},
			{"not from here", "PAGER=planted -x;PATH=.::" + os.Getenv("PATH"), []string{"new"}, []string{"planted: "}, "any:"},
			{"not installed", "PAGER=no-such-pager", []string{"new"}, []string{`+one\x1b[2Jtwo`}, "no-such-pager"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := onScreen(t, 40, 100, command(c.env, append([]string{"diff", "s"}, c.args...)...))
				for _, want := range c.want {
					s.see(want)
				}
				s.end(0)
				if text := s.text(); strings.Contains(text, "\x1b[2J") || c.not != "" && strings.Contains(text, c.not) {
					t.Errorf("on the screen: %q", text)
				}
			})
		}
		// What reads the diff from a pipe gets it as it is.
		out, err := command("PAGER=sed s/^/any:/", "diff", "s", "new").Output()
		if err != nil || !strings.Contains(string(out), "+one\x1b[2Jtwo\n") || strings.Contains(string(out), "any:") {
			t.Errorf("%v: %q", err, out)
		}
	})
}
