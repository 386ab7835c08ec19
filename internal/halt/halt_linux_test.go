package halt

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// Who has children is stopped, who has none is not, and all go on.
func TestParents(t *testing.T) {
	testbed.Children(t)
	c := exec.Command("sh", "-c", `sh -c 'sleep 600 & echo $$ $!; wait; :'; :`)
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer unix.Kill(-c.Process.Pid, unix.SIGKILL)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(line)
	inner, _ := strconv.Atoi(fields[0])
	leaf, _ := strconv.Atoi(fields[1])
	await := func(want bool, pids ...int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			ok := true
			for _, pid := range pids {
				ok = ok && Here.Stopped(pid) == want
			}
			if ok {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%v: stopped is not %v", pids, want)
			}
		}
	}
	if len(Here.children(c.Process.Pid)) == 0 {
		t.Fatal("it has no children")
	}
	for end := time.Now().Add(time.Minute); !Here.Stopped(inner) && time.Now().Before(end); { // a slow machine may take several
		Here.Parents(c.Process.Pid)
	}
	await(true, c.Process.Pid, inner)
	if Here.Stopped(leaf) {
		t.Error("one without children is stopped")
	}
	_ = unix.Kill(-c.Process.Pid, unix.SIGCONT)
	await(false, c.Process.Pid, inner)
}

// Of a long list only the beginning is read, and no number that is cut off.
func TestBeginning(t *testing.T) {
	list := filepath.Join(t.TempDir(), "children")
	for _, n := range []int{0, 1, maxMany, 1000} {
		text := strings.Repeat("1234567 ", 3) + strings.Repeat("123456 ", n)
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := string(Here.beginning("../" + list))
		if !strings.HasPrefix(text, got) || !strings.HasSuffix(got, " ") || len(strings.Fields(got)) < min(n+3, maxMany) {
			t.Errorf("of %d: %q", n+3, got)
		}
	}
}

// Who is asked to stop while he is stopped, as by Ctrl-Z, stops when all others go on.
func TestAsked(t *testing.T) {
	var pids []int
	for range 2 {
		c := exec.Command("sleep", "600")
		c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		pids = append(pids, c.Process.Pid)
	}
	await := func(pid int, want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); Here.Stopped(pid) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("stopped is not %v", want)
			}
		}
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGSTOP)
		await(pid, true)
	}
	_ = unix.Kill(pids[0], unix.SIGTSTP)
	again := Here.Asked(pids)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGCONT)
		await(pid, false) // which takes back what was asked for
	}
	again()
	await(pids[0], true)
	if Here.Stopped(pids[1]) {
		t.Error("nobody has asked this one")
	}
}
