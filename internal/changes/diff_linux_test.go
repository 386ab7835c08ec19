package changes

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDiff(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `printf 'one\ntwo\nthree\n' >text; echo gone >gone; ln -s a link; printf 'a\0b' >bin
		echo x >run; mkdir d; echo in >d/f; echo t >typed; printf x >'sp ace'`)
	s.sh(t, s.upper, `printf 'one\n2\nthree' >text; ln -s b link; printf 'a\0c' >bin; echo x >run; chmod 755 run
		echo d >d; ln -s t typed; printf y >'sp ace'; mkdir new; mkfifo p; : >empty; echo q >"$(printf 'q\n"')"`)
	must(t, unix.Mknod(s.upper+"/gone", unix.S_IFCHR, 0))
	var out strings.Builder
	must(t, Diff(context.Background(), &out, s.lower, s.upper, DiffOptions{}))
	want, err := os.ReadFile("testdata/diff.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile("testdata/diff.golden", []byte(out.String()), 0o644))
	} else {
		must(t, err)
		same2(t, "diff", out.String(), string(want))
	}
	out.Reset()
	must(t, Diff(context.Background(), &out, s.lower, s.upper, DiffOptions{Paths: []string{"run"}}))
	same2(t, "one path", out.String(), "diff --git a/run b/run\nold mode 100644\nnew mode 100755")
}

// TestGitReadsDiff lets git apply our diff and compares with what Apply does.
func TestGitReadsDiff(t *testing.T) {
	s := newScene(t)
	s.sh(t, s.lower, `printf 'one\ntwo\nthree\n' >text; echo gone >gone; ln -s a link; echo x >run; echo t >typed; printf x >'sp ace'; seq 100 >long`)
	s.sh(t, s.upper, `printf 'one\n2\nthree' >text; ln -s b link; echo x >run; chmod 755 run; : >empty; mkdir d; echo 1 >d/n
		ln -s t typed; printf y >'sp ace'; echo q >"$(printf 'q\n"\377')"; (seq 40; echo x; seq 42 77; seq 79 101) >long`)
	must(t, unix.Mknod(s.upper+"/gone", unix.S_IFCHR, 0))
	var out bytes.Buffer
	must(t, Diff(context.Background(), &out, s.lower, s.upper, DiffOptions{}))
	copied := t.TempDir()
	s.sh(t, s.lower, "cp -a . "+copied)
	cmd := exec.Command("git", "apply", "-")
	cmd.Dir, cmd.Stdin = copied, &out
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, text)
	}
	s.apply(t, ApplyOptions{})
	git, err := snapshot(copied)
	must(t, err)
	ours, err := snapshot(s.lower)
	must(t, err)
	sameTree(t, git, ours)
}
