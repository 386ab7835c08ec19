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

	"golang.org/x/sys/unix"
)

// Who has children is stopped, who has none is not, and all go on.
func TestParents(t *testing.T) {
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
				ok = ok && Stopped(pid) == want
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
		t.Skip("this kernel does not tell about children")
	}
	for end := time.Now().Add(time.Minute); !Stopped(inner) && time.Now().Before(end); { // a slow machine may take several
		Here.Parents(c.Process.Pid)
	}
	await(true, c.Process.Pid, inner)
	if Stopped(leaf) {
		t.Error("one without children is stopped")
	}
	Here.GoOn(c.Process.Pid)
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
