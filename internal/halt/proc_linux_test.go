package halt

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// apart is the child of a process in a namespace, with several threads, and its /proc.
func apart(t *testing.T) (child int, proc *os.File) {
	t.Helper()
	testbed.Children(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `mount -t proc proc /proc && { "$0" & echo; wait; }`, self)
	c.Env = append(os.Environ(), role+"=obedient")
	c.SysProcAttr = testbed.Namespaces(t, unix.CLONE_NEWPID)
	c.SysProcAttr.Pdeathsig = unix.SIGKILL
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	if n, _ := out.Read(make([]byte, 1)); n == 0 {
		c.Wait()
		t.Skipf("this host lets nobody mount a /proc: %s", stderr.Bytes())
	}
	if proc, err = os.Open(fmt.Sprintf("/proc/%d/root/proc", c.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	below := Here.children(c.Process.Pid)
	if len(below) == 0 {
		t.Fatal("it has no children")
	}
	return below[0], proc
}

// TestOf: processes of a namespace are seen and reached by their numbers in it.
func TestOf(t *testing.T) {
	child, proc := apart(t)
	inside := Innermost(child)
	if inside == 0 || inside == child {
		t.Fatalf("%d is %d inside", child, inside)
	}
	asked := 0
	in := Of(int(proc.Fd()), func(pid, tid int, sig unix.Signal) error {
		if asked++; pid != inside || tid == 0 {
			t.Errorf("thread %d of %d instead of %d is to be sent a signal", tid, pid, inside)
		}
		return unix.Tgkill(child, child, sig)
	})
	var tids []int
	for end := time.Now().Add(time.Minute); len(tids) < 2; tids, _ = in.numbers(strconv.Itoa(inside) + "/task") {
		if time.Now().After(end) {
			t.Fatal("it has one thread")
		}
	}
	if all, err := in.Processes(); err != nil || len(all) > 10 {
		t.Errorf("%v, %v", all, err)
	}
	for _, tid := range append(tids, 0) {
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
			if err := in.send(inside, tid, sig); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); Here.Stopped(child) != (sig == unix.SIGSTOP) || in.Stopped(inside) != Here.Stopped(child); {
				if time.Now().After(end) {
					t.Fatalf("thread %d: nothing came of %v", tid, sig)
				}
			}
		}
	}
	t.Logf("otherwise: %d signals", asked)
	asked = 0
	if err := in.send(999999, 0, unix.SIGSTOP); err == nil || asked > 0 {
		t.Error("somebody was meant who is not there")
	}
}
