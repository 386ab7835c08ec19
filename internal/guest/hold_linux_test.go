package guest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// One that comes while programs wait does so too, and one that must not stop goes on with them. (A
// gate is not closed here: that would stop everybody.)
func TestGate(t *testing.T) {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	pid := c.Process.Pid
	await := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); halt.Here.Stopped(pid) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("stopped is not %v", want)
			}
		}
	}
	g := &gate{}
	if g.born(pid); halt.Here.Stopped(pid) {
		t.Error("it waits for nothing")
	}
	g.closed, g.stopped = true, map[int]bool{pid: true}
	g.born(pid)
	await(true)
	if g.wake(pid); !halt.Here.Stopped(pid) {
		t.Error("it goes on while all have to wait")
	}
	if g.stopped[pid] {
		t.Error("it would not go on with the others")
	}
	g.closed = false
	g.wake(pid)
	await(false)
}

// Nobody waits for a closed gate, nor has a program go on behind it: one that
// is asked to end is ended, and one that shall go on does so later.
func TestGateForLong(t *testing.T) {
	r := newReaper()
	g := &r.gate
	g.closed = true
	if err := g.close("the disk is full"); err != nil { // it is closed, so nobody is stopped
		t.Fatal(err)
	}
	if why := g.pass(); why != "the disk is full" {
		t.Errorf("it waits for %q", why)
	}
	var f *wire.Failure
	if _, _, err := r.start(false, func() (int, error) { return 0, errors.New("it was started") }); !errors.As(err, &f) || f.Code != 125 {
		t.Errorf("a program that comes is told %v", err)
	}
	if r.remains(os.Getpid()) {
		t.Error("that it waits is taken for its own stop")
	}
	group, _ := unix.Getpgid(0)
	g.stopped = map[int]bool{os.Getpid(): true, 1: true}
	for sent, want := range map[syscall.Signal]syscall.Signal{
		unix.SIGINT: unix.SIGKILL, unix.SIGTERM: unix.SIGKILL, unix.SIGHUP: unix.SIGKILL, unix.SIGQUIT: unix.SIGKILL,
		unix.SIGKILL: unix.SIGKILL, unix.SIGUSR1: unix.SIGUSR1, unix.SIGTSTP: unix.SIGTSTP, unix.SIGCONT: 0,
	} {
		if got := g.instead(sent, group); got != want {
			t.Errorf("for %v, %v is sent", sent, got)
		}
	}
	if g.stopped[os.Getpid()] || !g.stopped[1] {
		t.Errorf("of those that shall go on, and others, %v stay stopped", g.stopped)
	}
}
