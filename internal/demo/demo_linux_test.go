package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// demoCommand is the demo of the bed's user, with a directory of its own for what
// must be gone at the end.
func demoCommand(t *testing.T, b *testbed.Bed) (c *exec.Cmd, tmp string) {
	t.Helper()
	c = b.Command("demo")
	tmp = filepath.Join(b.Dir, "t")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, b.UID, b.UID); err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "TMPDIR="+tmp)
	return c, tmp
}

func checkNothingLeft(t *testing.T, b *testbed.Bed, tmp string) {
	t.Helper()
	for _, dir := range []string{tmp, b.Home, b.Work} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v (%v)", dir, left, err)
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		if contains(file, tmp) {
			cmdline, _ := os.ReadFile(file)
			t.Errorf("left running: %q", cmdline)
		}
	}
}

func TestDemo(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		c, tmp := demoCommand(t, b)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		checkNothingLeft(t, b, tmp)
		_, table, _ := strings.Cut(string(out), "misdeeds")
		for _, m := range misdeeds {
			row := rowOf(table, m.title)
			if !strings.HasPrefix(row, "✓") {
				t.Errorf("%s: %s", m.name, row)
			}
		}
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
}

// rowOf finds a misdeed's line.
func rowOf(table, title string) string {
	for l := range strings.SplitSeq(table, "\n") {
		if strings.Contains(l, title) {
			return strings.TrimSpace(l)
		}
	}
	return "no such line"
}

// Without a sandbox everything gets through, and the demo must say so: this is the
// proof that it could.
func TestDemoWithoutWall(t *testing.T) {
	var out bytes.Buffer
	err := run(context.Background(), Options{Program: testbed.Binary(t), Screen: &out}, nil)
	if !errors.Is(err, ErrThrough) {
		t.Errorf("got %v, want that it got through", err)
	}
	_, table, _ := strings.Cut(out.String(), "misdeeds")
	for _, m := range misdeeds {
		row := rowOf(table, m.title)
		if !strings.Contains(row, "got through") {
			t.Errorf("%s: %s", m.name, row)
		}
	}
	if !strings.Contains(out.String(), "NOT STOPPED") {
		t.Errorf("the summary is silent:\n%s", out.String())
	}
}

// One hole in the wall, and the demo finds that one.
func TestDemoWithHole(t *testing.T) {
	program := testbed.Binary(t)
	var out bytes.Buffer
	wall := []string{program, "run", "--env", deployToken, "--", rootfs.Own + "/bin/coffer"}
	err := run(context.Background(), Options{Program: program, Screen: &out}, wall)
	if !errors.Is(err, ErrThrough) {
		t.Errorf("got %v, want that it got through", err)
	}
	if row := rowOf(out.String(), deployToken); !strings.Contains(row, "got through") {
		t.Errorf("got %q", row)
	}
	if n := strings.Count(out.String(), "got through"); n != 1 {
		t.Errorf("%d misdeeds got through, want 1:\n%s", n, out.String())
	}
}

// An agent that falls silent has not been stopped.
func TestDemoWithSilentAgent(t *testing.T) {
	var out bytes.Buffer
	err := run(context.Background(), Options{Program: testbed.Binary(t), Screen: &out}, []string{"/bin/true"})
	if !errors.Is(err, ErrThrough) {
		t.Errorf("got %v, want a failure", err)
	}
	if n := strings.Count(out.String(), "it was not tried"); n != len(misdeeds) {
		t.Errorf("only %d misdeeds are said not to be tried:\n%s", n, out.String())
	}
}

func TestDemoInterrupted(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		c, tmp := demoCommand(t, b)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// The headline comes before the first stage is built.
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
			t.Errorf("got %v, want an end by SIGINT", err)
		}
		checkNothingLeft(t, b, tmp)
	})
}
