package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command is killed, or what serves it, at many moments of its life.

// delays are in milliseconds from the start of the command. A whole `coffer run` takes
// about fifteen on an idle machine, and several times as much on this test's.
var delays = []int{0, 1, 3, 5, 8, 12, 17, 23, 30, 40}

// victims find the process to kill, or nil if there is none now.
var victims = map[string]func(w world, c *exec.Cmd) []process{
	"command":    func(w world, c *exec.Cmd) []process { return []process{{pid: c.Process.Pid}} },
	"supervisor": func(w world, c *exec.Cmd) []process { return w.supervisors() },
	"guest":      func(w world, c *exec.Cmd) []process { return w.guests() },
}

// moments are steps in the life of a sandbox that can be seen from outside.
var moments = map[string]func(w world, c *exec.Cmd) bool{
	"draft":     func(w world, _ *exec.Cmd) bool { return w.stored(".new-*") },
	"record":    func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/sandbox.json") },
	"guest":     func(w world, _ *exec.Cmd) bool { return len(w.guests()) > 0 },
	"layers":    func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/layers") },
	"git":       func(w world, _ *exec.Cmd) bool { return exists(filepath.Join(w.Work, ".git")) },
	"worktree":  func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/workspace/*") },
	"private":   func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/git") },
	"incoming":  func(w world, _ *exec.Cmd) bool { return exists(filepath.Join(w.Work, ".git/refs/coffer")) },
	"socket":    func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/control.sock") },
	"output":    func(w world, c *exec.Cmd) bool { return content(c.Stdout) != "" },
	"discarded": func(w world, _ *exec.Cmd) bool { return w.stored(".gone-*") },
}

func (w world) stored(pattern string) bool {
	found, _ := filepath.Glob(filepath.Join(w.store(), pattern))
	return len(found) > 0
}

// murder starts a command, waits until it is time, and kills the victim, if there is
// one. It returns when the command has ended: it must not hang.
func (w world) murder(t *testing.T, victim string, when func(c *exec.Cmd, ended func() bool), args ...string) result {
	t.Helper()
	c := w.Command(args...)
	start(t, c)
	when(c, func() bool { return ended(c) })
	w.note()
	for _, p := range victims[victim](w, c) {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	return finish(t, c)
}

// ended says whether a command has, though nobody has waited for it yet.
func ended(c *exec.Cmd) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
	return err != nil || strings.Contains(string(state), ") Z ")
}

// times calls f for every delay and for the named moments.
func times(t *testing.T, w world, at string, f func(t *testing.T, when func(c *exec.Cmd, ended func() bool))) {
	t.Helper()
	for _, d := range delays {
		try(t, fmt.Sprintf("%dms", d), func(t *testing.T) {
			f(t, func(*exec.Cmd, func() bool) { time.Sleep(time.Duration(d) * time.Millisecond) })
		})
	}
	for name := range strings.FieldsSeq(at) {
		try(t, name, func(t *testing.T) {
			f(t, func(c *exec.Cmd, ended func() bool) {
				for !moments[name](w, c) && !ended() {
				}
			})
		})
	}
}

// try is a subtest after whose failure there is no point in going on: what it left
// would be blamed on the next.
func try(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, f) {
		t.FailNow()
	}
}

func TestKillRun(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, victim := range []string{"command", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "draft record guest layers git output discarded", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, victim, when, "run", "--", "sh", "-c", "echo in; sleep 0.005; sleep 0.005")
					w.alone(t)
					w.tidy(t)
				})
				w.works(t)
			})
		}
	})
}

// works wants coffer to do its job.
func (w world) works(t *testing.T) {
	t.Helper()
	if out := w.must(t, "run", "--", "echo", "well"); out != "well\n" {
		t.Errorf("printed %q", out)
	}
}

// With limits, there are cgroups to be left behind.
func TestKillLimited(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		if r := w.coffer(t, "run", "--pids", "100", "--memory", "1g", "--", "true"); strings.Contains(r.err, "cannot limit ") {
			t.Skip("this user cannot set limits here:", r.err) // a test of package limits sees that this is so
		} else if r.code != 0 {
			t.Fatal(r)
		}
		for _, victim := range []string{"command", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "guest output discarded", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, victim, when, "run", "--pids", "100", "--memory", "1g", "--", "sh", "-c", "echo in; sleep 0.005")
					w.alone(t)
					w.tidy(t)
				})
			})
		}
	})
}

func TestKillCreate(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, victim := range []string{"command", "supervisor", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "draft record guest layers git socket output", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, victim, when, "exec", "--create", "--name", "s", "--", "sh", "-c", "echo in; sleep 0.005")
					// Either it was made, and is whole, or it was not.
					if !strings.Contains(w.must(t, "list"), " s ") {
						w.must(t, "exec", "--create", "--name", "s", "--", "true")
					}
					w.answers(t, "s")
					w.must(t, "remove", "--force", "s")
					w.alone(t)
					w.tidy(t)
				})
			})
		}
	})
}

// answers wants a sandbox to run a program.
func (w world) answers(t *testing.T, name string) {
	t.Helper()
	if out := w.must(t, "exec", "-m", name, "--", "echo", "well"); out != "well\n" {
		t.Errorf("printed %q", out)
	}
}

// The same sandbox, with something to lose in it, goes through all of this.
func TestKillStart(t *testing.T) { killExec(t, true, "guest git socket output") }
func TestKillExec(t *testing.T)  { killExec(t, false, "output") }

func killExec(t *testing.T, stopped bool, at string) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "sh", "-c", "echo kept >~/file")
		for _, victim := range []string{"command", "supervisor", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, at, func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					if stopped {
						w.must(t, "stop", "s")
					} else {
						w.answers(t, "s")
					}
					w.murder(t, victim, when, "exec", "-m", "s", "--", "sh", "-c", "echo in; sleep 0.005")
					w.intact(t)
				})
			})
		}
	})
}

// intact wants the sandbox s to be whole: it runs, or nothing is left of its running;
// it answers, has its file, and can be stopped.
func (w world) intact(t *testing.T) {
	t.Helper()
	var runs bool
	eventually(t, func() error {
		if runs = len(w.supervisors()) > 0; !runs && len(w.processes()) > 0 {
			return fmt.Errorf("processes are left: %v", w.processes())
		}
		return nil
	})
	if !runs {
		w.tidy(t)
	}
	read := []string{"exec", "-m", "s", "--", "sh", "-c", "cat ~/file"}
	r := w.coffer(t, read...)
	if r.code == 128+int(syscall.SIGTERM) {
		r = w.coffer(t, read...) // a stop whose command was killed came to be heard behind it
	}
	if r.code != 0 || r.out != "kept\n" {
		t.Errorf("the sandbox's file cannot be read: %s", r)
	}
	eventually(t, func() error { // one that has let go of the sandbox may still be about to end
		if n := len(w.supervisors()); n != 1 {
			return fmt.Errorf("it has %d supervisors", n)
		}
		return nil
	})
	w.must(t, "stop", "--force", "s")
	w.alone(t)
	w.tidy(t)
}

func TestKillStop(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "sh", "-c", "echo kept >~/file")
		for _, victim := range []string{"command", "supervisor", "guest"} {
			t.Run(victim, func(t *testing.T) {
				for _, d := range []int{0, 1, 2, 3, 4, 6, 8, 10, 15} {
					try(t, fmt.Sprintf("%dms", d), func(t *testing.T) {
						w.answers(t, "s")
						w.murder(t, victim, func(*exec.Cmd, func() bool) { time.Sleep(time.Duration(d) * time.Millisecond) }, "stop", "s")
						w.intact(t)
					})
				}
			})
		}
	})
}

// A sandbox that is being stopped takes no new programs: they would be ended with the others.
// Who wants one waits, and has it in the sandbox as it is started again.
func TestExecWhileStopping(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		c := w.Command("exec", "-m", "s", "--", "sh", "-c", "touch /dev/shm/before; trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done")
		start(t, c)
		says := func(word string) {
			t.Helper()
			eventually(t, func() error {
				if !strings.Contains(content(c.Stdout), word) {
					return fmt.Errorf("the program says %q", content(c.Stdout))
				}
				return nil
			})
		}
		says("up")
		w.must(t, "exec", "-m", "s", "--", "test", "-e", "/dev/shm/before")
		stop := w.Command("stop", "s")
		start(t, stop)
		says("asked")
		w.must(t, "exec", "-m", "s", "--", "test", "!", "-e", "/dev/shm/before")
		finish(t, stop)
		finish(t, c)
		w.must(t, "stop", "--force", "s")
		w.alone(t)
	})
}

// Programs that come at the moment of a stop are asked to end, or run in the next start; none is
// killed without a word, and none is lost.
func TestStopAmongExecs(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		for range 6 {
			w.must(t, "exec", "-m", "s", "--", "true")
			all := []*exec.Cmd{w.Command("stop", "s")}
			for range 3 {
				all = append(all, w.Command("exec", "-m", "s", "--", "sh", "-c", "trap 'exit 7' TERM; sleep 0.03 & wait $!; echo ran"))
			}
			for _, c := range all {
				start(t, c)
			}
			for i, c := range all {
				switch r := finish(t, c); {
				case i == 0 && r.code == 0, i > 0 && r.code == 0 && r.out == "ran\n":
				case i > 0 && (r.code == 7 || r.code == 128+int(syscall.SIGTERM)): // perhaps before it could say so
				default:
					t.Errorf("%v: %s", c.Args, r)
				}
			}
		}
		w.must(t, "stop", "--force", "s")
		w.alone(t)
	})
}

// A removal that was cut off is completed by the next command, or has not begun.
func TestKillRemove(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, d := range []int{0, 1, 2, 3, 4, 5, 6, 8, 10, 15} {
			try(t, fmt.Sprintf("%dms", d), func(t *testing.T) {
				w.must(t, "exec", "--create", "--name", "s", "--", "sh", "-c", "cd; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p $i/$i/$i/$i; echo x >$i/$i/file; done; echo kept >file")
				w.murder(t, "command", func(*exec.Cmd, func() bool) { time.Sleep(time.Duration(d) * time.Millisecond) }, "remove", "--force", "s")
				if strings.Contains(w.must(t, "list"), " s ") {
					w.intact(t)
					w.must(t, "remove", "s")
				}
				w.alone(t)
				w.tidy(t)
			})
		}
	})
}

// A program whose client is killed does not run on, and the sandbox does.
func TestClientKilled(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		c := w.Command("exec", "-m", "s", "--", "sh", "-c", "trap '' HUP TERM INT; echo up; while :; do sleep 0.05; done")
		start(t, c)
		eventually(t, func() error {
			if content(c.Stdout) == "" {
				return fmt.Errorf("the program does not start")
			}
			return nil
		})
		c.Process.Kill()
		finish(t, c)
		eventually(t, func() error {
			for _, p := range w.processes() {
				if p.is("sh", "-c") {
					return fmt.Errorf("%v runs on", p)
				}
			}
			return nil
		})
		if n := len(w.supervisors()); n != 1 {
			t.Errorf("there are %d supervisors", n)
		}
		w.answers(t, "s")
	})
}

// Who waits for a program is told when the sandbox dies under it.
func TestKilledUnderExec(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		for _, victim := range []string{"supervisor", "guest"} {
			t.Run(victim, func(t *testing.T) {
				r := w.murder(t, victim, func(c *exec.Cmd, ended func() bool) {
					for content(c.Stdout) == "" && !ended() {
						time.Sleep(time.Millisecond)
					}
				}, "exec", "-m", "s", "--", "sh", "-c", "echo up; exec sleep 1000")
				refused(t, r, 125, []string{"the sandbox is gone"})
				w.alone(t)
				w.answers(t, "s")
			})
		}
	})
}

// Ctrl-C and a polite kill end a command at every moment of its start, and what it was
// about to make is not left half made.
func TestInterrupted(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			for _, d := range delays {
				try(t, fmt.Sprintf("%v after %dms", signal, d), func(t *testing.T) {
					interrupt := func(args ...string) {
						c := w.Command(append(args, "--", "sh", "-c", "echo in; exec sleep 1000")...)
						start(t, c)
						time.Sleep(time.Duration(d) * time.Millisecond)
						c.Process.Signal(signal)
						// An early signal reaches the program as SIGTERM, whatever it was.
						if r := finish(t, c); r.code != 130 && r.code != 143 {
							t.Errorf("%v: %s", args, r)
						}
					}
					interrupt("run")
					w.alone(t)
					w.tidy(t)
					interrupt("exec", "--create", "--name", "s")
					if strings.Contains(w.must(t, "list"), " s ") {
						w.answers(t, "s")
						w.must(t, "remove", "--force", "s")
					}
					w.alone(t)
					w.tidy(t)
				})
			}
		}
	})
}
