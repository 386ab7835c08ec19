package fault

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Many at once.

func TestManyRuns(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		var all sync.WaitGroup
		for i := range 50 {
			c := w.Command("run", "--", "sh", "-c", fmt.Sprintf("cat; echo from %d; echo problem %d >&2; exit %d", i, i, i))
			c.Stdin = strings.NewReader(fmt.Sprintf("to %d\n", i))
			start(t, c)
			all.Go(func() {
				r := wait(c)
				want := result{fmt.Sprintf("to %d\nfrom %d\n", i, i), fmt.Sprintf("problem %d\n", i), i}
				if r != want {
					t.Errorf("run %d: %s\nwant %s", i, r, want)
				}
			})
		}
		all.Wait()
		w.alone(t)
		w.tidy(t)
	})
}

func TestManyExecs(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		var all sync.WaitGroup
		for i := range 20 {
			c := w.Command("exec", "-m", "s", "--", "sh", "-c", fmt.Sprintf("cat; echo from %d; exit %d", i, i))
			c.Stdin = strings.NewReader(strings.Repeat(fmt.Sprintln("to", i), 10000))
			start(t, c)
			all.Go(func() {
				r := wait(c)
				want := strings.Repeat(fmt.Sprintln("to", i), 10000) + fmt.Sprintln("from", i)
				if r.out != want || r.code != i || r.err != "" {
					t.Errorf("exec %d: exit code %d, %d bytes of output, want %d; %s", i, r.code, len(r.out), len(want), r.err)
				}
			})
		}
		all.Wait()
	})
}

// wait is finish for other goroutines: it fails no test.
func wait(c *exec.Cmd) result {
	c.Wait()
	r := output(c)
	r.code = c.ProcessState.ExitCode()
	return r
}

// Those who find a sandbox stopped at the same time start it once.
func TestStartedOnce(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		for range 5 {
			w.must(t, "stop", "s")
			var all []*exec.Cmd
			for range 4 {
				c := w.Command("exec", "-m", "s", "--", "readlink", "/proc/1/ns/pid", "/proc/self/ns/pid")
				start(t, c)
				all = append(all, c)
			}
			seen := map[string]bool{}
			for _, c := range all {
				r := finish(t, c)
				if !strings.Contains(r.out, "pid:[") {
					t.Errorf("%v: %s", c.Args, r)
				}
				seen[r.out] = true
			}
			if len(seen) != 1 {
				t.Errorf("they ran in %d machines: %v", len(seen), seen)
			}
			eventually(t, func() error { // the one that was stopped may still be about to end
				if n := len(w.supervisors()); n != 1 {
					return fmt.Errorf("there are %d supervisors", n)
				}
				return nil
			})
		}
	})
}

// Of those who want the same name at the same time, one gets it.
func TestSameName(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		var all []*exec.Cmd
		for range 5 {
			c := w.Command("exec", "--create", "--name", "s", "--", "echo", "mine")
			start(t, c)
			all = append(all, c)
		}
		won := 0
		for _, c := range all {
			if r := finish(t, c); r.code == 0 && r.out == "mine\n" {
				won++
			} else {
				refused(t, r, 125, []string{"a sandbox of this name exists: s"})
			}
		}
		if won != 1 {
			t.Errorf("%d got the name", won)
		}
	})
}

// A hundred sandboxes that wait for work cost little, and each does its own.
func TestManySandboxes(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		const n = 100
		inParallel(n, func(i int) {
			r := run(w.Command("exec", "--create", "--name", fmt.Sprintf("s%03d", i), "--", "sh", "-c", fmt.Sprintf("echo %d >~/file", i)))
			if r.code != 0 {
				t.Errorf("create %d: %s", i, r)
			}
		})
		if got := len(w.supervisors()); got != n {
			t.Errorf("%d supervisors run", got)
		}
		inParallel(n, func(i int) {
			r := run(w.Command("exec", "-m", fmt.Sprintf("s%03d", i), "--", "sh", "-c", "cat ~/file; uname -n"))
			if want := fmt.Sprintf("%d\ns%03d\n", i, i); r.code != 0 || r.out != want {
				t.Errorf("exec %d: %s", i, r)
			}
		})
		eventually(t, func() error { // one that is slow to answer is said to be starting
			if got := len(w.running(t)); got != n {
				return fmt.Errorf("%d are listed as running", got)
			}
			return nil
		})
		w.must(t, "remove", "--force", "--everywhere")
		w.alone(t)
		w.tidy(t)
	})
}

// run runs a command without a test to fail.
func run(c *exec.Cmd) result {
	var out, err strings.Builder
	c.Stdout, c.Stderr = &out, &err
	c.Run()
	return result{out.String(), err.String(), c.ProcessState.ExitCode()}
}

// inParallel calls f for 0 to n-1, eight at a time.
func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
