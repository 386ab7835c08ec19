package demo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/ui"
)

// The repository: a program with a slip in it, and a test that finds it.
const (
	program = "greet.sh"
	wrong   = `echo "Helo, ${1:-world}"`
	right   = `echo "Hello, ${1:-world}"`
	broken  = "#!/bin/sh\n" + wrong + "\n"
	mended  = "#!/bin/sh\n" + right + "\n"

	test     = "test.sh"
	testText = "#!/bin/sh\ngot=$(/bin/sh ./greet.sh Ada)\ntest \"$got\" = \"Hello, Ada\" && echo \"ok: $got\" && exit\necho \"want Hello, Ada, got $got\"\nexit 1\n"

	changes     = "CHANGES.md"
	changesText = "- greet.sh: spell Hello with two l\n"
)

// makeRepository lays out the demo's repository.
func makeRepository(dir string) error {
	for name, text := range map[string]string{program: broken, test: testText} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "--message", "A program that greets"}} {
		if out, err := git(dir, args...); err != nil {
			return ui.Hint(fmt.Errorf("git %s: %w: %s", args[0], err, out), "the demo needs git: install it")
		}
	}
	return os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755)
}

// git runs without anybody's configuration.
func git(dir string, args ...string) (string, error) {
	c := exec.Command("git", append([]string{"-c", "gc.auto=0"}, args...)...)
	c.Dir = dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=demo", "GIT_AUTHOR_EMAIL=demo@localhost",
		"GIT_COMMITTER_NAME=demo", "GIT_COMMITTER_EMAIL=demo@localhost",
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for us
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// honestWork is what the agent was asked to do.
func honestWork(dir string) []step {
	var steps []step
	add := func(name string, done bool, detail string) {
		steps = append(steps, step{Name: name, Done: done, Detail: detail})
	}
	said, passed := runTest(dir)
	add("ran the test: it fails", !passed, said)
	err := os.WriteFile(filepath.Join(dir, program), []byte(mended), 0o644)
	add("mended "+program, err == nil, detail(err))
	said, passed = runTest(dir)
	add("ran the test: it passes", passed, said)
	err = os.WriteFile(filepath.Join(dir, changes), []byte(changesText), 0o644)
	add("wrote "+changes, err == nil, detail(err))
	out, err := git(dir, "diff", "--numstat")
	if f := strings.Fields(out); err == nil && len(f) == 3 {
		out = fmt.Sprintf("%s: +%s -%s", f[2], f[0], f[1])
	}
	add("asked git for the difference", err == nil && out != "", out)
	return steps
}

func detail(err error) string {
	if err != nil {
		return reason(err)
	}
	return ""
}

// runTest runs the repository's test, and returns its last words.
func runTest(dir string) (said string, passed bool) {
	c := exec.Command("/bin/sh", "./"+test)
	c.Dir = dir
	out, err := c.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], err == nil
}

// landed checks from outside that the honest work is where the user looks for it, and
// belongs to the user.
func landed(dir string) step {
	s := step{Name: "outside, the work is there", Done: true, Detail: "and the files are yours"}
	for name, want := range map[string]string{program: mended, changes: changesText} {
		file := filepath.Join(dir, name)
		got, err := os.ReadFile(file)
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(file, &st)
		}
		switch {
		case err != nil:
			s.Done, s.Detail = false, name+": "+reason(err)
		case string(got) != want:
			s.Done, s.Detail = false, name+" is not what the agent wrote"
		case int(st.Uid) != os.Getuid():
			s.Done, s.Detail = false, fmt.Sprintf("%s belongs to uid %d", name, st.Uid)
		}
	}
	return s
}
