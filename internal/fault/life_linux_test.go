package fault

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// The ends that a sandbox can come to, and what may happen on the way.

// A command that is stopped for a while, as by Ctrl-Z, misses nothing.
func TestSuspended(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		for _, how := range [][]string{{"run"}, {"exec", "-m", "s"}} {
			c := w.Command(append(how, "--", "sh", "-c", "seq 1 1000000; sha256sum")...)
			input := bytes.Repeat([]byte("all of this\n"), 200_000)
			c.Stdin = bytes.NewReader(input)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for range 5 {
				if _, err := io.CopyN(&got, out, 200_000); err != nil {
					t.Fatal(err)
				}
				c.Process.Signal(syscall.SIGSTOP)
				eventually(t, func() error {
					if !testbed.Stopped(c.Process.Pid) {
						return errors.New("it is not stopped")
					}
					return nil
				})
				time.Sleep(50 * time.Millisecond) // for the other side to run full
				c.Process.Signal(syscall.SIGCONT)
			}
			if _, err := io.Copy(&got, out); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
			var want strings.Builder
			for i := 1; i <= 1_000_000; i++ {
				fmt.Fprintln(&want, i)
			}
			fmt.Fprintf(&want, "%x  -\n", sha256.Sum256(input))
			if got.String() != want.String() {
				t.Errorf("%v: %d bytes arrived, want %d, or others", how, got.Len(), want.Len())
			}
		}
	})
}

// Stopping a sandbox ends what runs in it, and who waits for it is told.
func TestStopUnderExec(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		for _, stop := range [][]string{{"stop", "s"}, {"stop", "--force", "s"}, {"remove", "--force", "s"}} {
			c := w.Command("exec", "-m", "s", "--", "sh", "-c", "echo up; exec sleep 1000")
			start(t, c)
			eventually(t, func() error {
				if content(c.Stdout) == "" {
					return fmt.Errorf("the program does not start: %s", content(c.Stderr))
				}
				return nil
			})
			w.must(t, stop...)
			if r := finish(t, c); r.code != 143 && r.code != 137 && r.code != 125 {
				t.Errorf("%v: %s", stop, r)
			}
			w.alone(t)
			w.tidy(t)
		}
	})
}

// A sandbox in which nothing runs is stopped after its idle time, and not before.
func TestIdle(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--idle", "100ms", "--", "sh", "-c", "echo kept >~/file; sleep 0.5; echo done")
		eventually(t, func() error {
			if w.stoppedNow(t, "s") {
				return nil
			}
			return fmt.Errorf("it does not stop")
		})
		w.alone(t)
		w.tidy(t)
		if out := w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cat ~/file"); out != "kept\n" {
			t.Errorf("its file holds %q", out)
		}
		// A program that nobody waits for is work, too.
		w.must(t, "exec", "-m", "s", "--detach", "--", "sh", "-c", "sleep 0.5; echo done")
		w.alone(t)
		if out := w.must(t, "logs", "s"); !strings.Contains(out, "done\n") {
			t.Errorf("the log holds %q", out)
		}
	})
}

func (w world) stoppedNow(t *testing.T, name string) bool {
	for _, n := range w.inState(t, "stopped") {
		if n == name {
			return true
		}
	}
	return false
}

// The time limit ends everything, whatever it thinks of signals.
func TestTimeout(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		const stubborn = `trap '' TERM HUP INT; sleep 1000 & setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & echo up; while :; do sleep 0.02; done`
		r, limit := timed(func(limit string) result { return w.coffer(t, "run", "--timeout", limit, "--", "sh", "-c", stubborn) })
		if r.code != 137 || r.out != "up\n" || !strings.Contains(r.err, "time limit of "+limit) {
			t.Error(r)
		}
		w.alone(t)
		w.tidy(t)
		r, _ = timed(func(limit string) result {
			w.coffer(t, "remove", "--force", "s") // if there is one
			return w.coffer(t, "exec", "--create", "--name", "s", "--timeout", limit, "--", "sh", "-c", stubborn)
		})
		if r.code == 0 || r.out != "up\n" || !strings.Contains(r.err, "coffer: ") {
			t.Error(r)
		}
		w.alone(t)
		w.tidy(t)
	})
}

// timed runs a program with a time limit, with a longer one if it was over before the program
// could say anything.
func timed(run func(limit string) result) (r result, limit string) {
	for d := 300 * time.Millisecond; d < patience && r.out == ""; d *= 2 {
		limit = d.String()
		r = run(limit)
	}
	return r, limit
}

// What a program leaves running when it ends goes with a throw-away.
func TestDaemonsEnd(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "run", "--", "sh", "-c", `setsid sh -c 'trap "" TERM HUP; exec sleep 1000' & setsid sleep 1000 & :`)
		w.alone(t)
		w.tidy(t)
	})
}

// cron gives a program next to nothing.
func TestBareEnvironment(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		c := w.Command("run", "--", "sh", "-c", "echo well; test -n \"$HOME$PATH\"")
		c.Env = []string{"XDG_DATA_HOME=" + w.Dir + "/home/data"}
		if r := finish(t, c); r.code != 0 || r.out != "well\n" {
			t.Error(r)
		}
		c = w.Command("exec", "--create", "--name", "s", "--", "echo", "well")
		c.Env = []string{"XDG_DATA_HOME=" + w.Dir + "/home/data", "HOME="}
		if r := finish(t, c); r.code != 0 || r.out != "well\n" {
			t.Error(r)
		}
		c = w.Command("remove", "--force", "s")
		c.Env = []string{"XDG_DATA_HOME=" + w.Dir + "/home/data"}
		if r := finish(t, c); r.code != 0 {
			t.Error(r)
		}
		// Neither a home nor an account to look one up: there is no place to go.
		if w.UID != os.Getuid() {
			c = w.Command("run", "--", "true")
			c.Env = []string{}
			refused(t, finish(t, c), 125, []string{"HOME is not set", "hint: set HOME or XDG_DATA_HOME"})
		}
		w.alone(t)
	})
}

// A supervisor that hangs can be got rid of.
func TestHungSupervisor(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "sh", "-c", "echo kept >~/file")
		for _, p := range w.supervisors() {
			syscall.Kill(p.pid, syscall.SIGSTOP)
		}
		w.must(t, "list")
		w.must(t, "stop", "--force", "s")
		w.alone(t)
		w.tidy(t)
		if out := w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cat ~/file"); out != "kept\n" {
			t.Errorf("its file holds %q", out)
		}
	})
}

// A system that shuts down tells every process to end: sandboxes end well.
func TestSupervisorTerminated(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "sh", "-c", "echo kept >~/file")
		for _, p := range w.supervisors() {
			syscall.Kill(p.pid, syscall.SIGTERM)
		}
		w.alone(t)
		w.tidy(t)
		w.answers(t, "s")
	})
}

// Who gives up on doctor is told nothing of a host that was not looked at to the end.
func TestDoctorInterrupted(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		whole := w.must(t, "doctor")
		for _, d := range delays {
			try(t, fmt.Sprintf("after %dms", d), func(t *testing.T) {
				c := w.Command("doctor")
				start(t, c)
				time.Sleep(time.Duration(d) * time.Millisecond)
				c.Process.Signal(syscall.SIGINT)
				if r := finish(t, c); r.code != 130 && (r.code != 0 || r.out != whole) {
					t.Error(r)
				}
				w.alone(t)
				w.tidy(t)
			})
		}
	})
}
