package ui

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"'git branch -D coffer/parser@fix-1.2'", []string{"coffer/parser@fix-1.2"}},
		{"'git branch -D a b'", []string{"a", "b"}},
		{"git branch -D 'x;touch${IFS}PWNED;#'", []string{"x;touch${IFS}PWNED;#"}},
		{`git branch -D a 'it'\''s'`, []string{"a", "it's"}},
		{"git branch -D ''", []string{""}},
		{"git branch -D 'ä b\n'", []string{"ä b\n"}},
	} {
		if got := Command("git branch -D", c.args...); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}

// A shell makes the argument of it that was meant, and runs nothing else.
func TestCommandPasted(t *testing.T) {
	dir := t.TempDir()
	for _, arg := range []string{
		"x;touch${IFS}PWNED;#", "$(touch PWNED)", "`touch PWNED`", "'; touch PWNED; '", `\'; touch PWNED; '`, "a\ntouch PWNED\n", "*", "~", "a b", "a && touch PWNED", ">PWNED", "",
	} {
		for _, line := range []string{Command("printf %s", arg), "printf %s " + Word(arg)} {
			line = strings.TrimSuffix(strings.TrimPrefix(line, "'printf"), "printf")
			c := exec.Command("/bin/sh", "-c", "printf"+strings.TrimPrefix(line, "printf"))
			c.Dir = dir
			out, err := c.Output()
			if err != nil || string(out) != arg {
				t.Errorf("%q: %q, %v", arg, out, err)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "PWNED")); err == nil {
		t.Error("an argument was run")
	}
}
