package guest

import (
	"os/exec"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/halt"
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
