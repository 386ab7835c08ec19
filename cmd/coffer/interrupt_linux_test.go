package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// onEachWay runs a test as every user with each way to run a shell script behind a wall. The
// script is the last argument.
func onEachWay(t *testing.T, test func(t *testing.T, b *testbed.Bed, way []string)) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		quietly(t, b.Command("exec", "--create", "--name", "s", "--", "true"))
		for name, way := range map[string][]string{
			"run":  {"run", "--", "sh", "-c"},
			"exec": {"exec", "-m", "s", "--", "sh", "-c"},
			"jail": {"jail", "-q", "--net", "none", "--", "sh", "-c"},
		} {
			t.Run(name, func(t *testing.T) { test(t, b, way) })
		}
	})
}

// interruptedBySignal wants a command that has ended to have been ended by SIGINT.
func interruptedBySignal(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if s := c.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != unix.SIGINT {
		t.Errorf("%q: %v, want an end by SIGINT", c.Args, c.ProcessState)
	}
}

// Ctrl-C ends a shell's loop, not only the turn that it is in: at a prompt, in a script, and
// also where the program does not read from the terminal.
func TestCtrlCEndsLoops(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, b *testbed.Bed, way []string) {
		for _, from := range []string{"", " </dev/null"} {
			command := b.Coffer + " " + strings.Join(way, " ") + " 'echo run\"\"ning; exec sleep 1000'" + from
			loop := "for i in 1 2 3; do echo turn $((i+10)); " + command + "; done"

			s := inShell(t, b, loop)
			s.see("turn 11\r\nrunning")
			s.hear(s.keys("\x03"), prompt)
			s.hear(s.keys("echo code $?\r"), "code 130\r\n", prompt)
			if shown := s.text(); strings.Contains(shown, "turn 12") {
				t.Errorf("the shell's loop went on: %q", shown)
			}
			for _, shell := range []string{"bash", "sh"} {
				s := onScreen(t, 24, 100, b.Program(shell, "-c", loop+"; echo the e''nd"))
				s.see("turn 11\r\nrunning")
				s.typeIn("\x03")
				s.end(130)
				interruptedBySignal(t, s.cmd)
				if shown := s.text(); strings.Contains(shown, "turn 12") || strings.Contains(shown, "the end") {
					t.Errorf("the loop in a script of %s went on: %q", shell, shown)
				}
			}
		}
	})
}

// A program that deals with Ctrl-C in its own way, or ends like one that was interrupted,
// does not end the loop.
func TestCtrlCDealtWith(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, b *testbed.Bed, way []string) {
		s := onScreen(t, 24, 100, b.Command(append(way, `trap 'exit 130' INT; echo running; while :; do sleep 0.02; done`)...))
		s.see("running")
		s.typeIn("\x03")
		s.end(130)
		if !s.cmd.ProcessState.Exited() {
			t.Errorf("%v, want the program's own exit code", s.cmd.ProcessState)
		}

		// Where there is no terminal, and nobody interrupted us, the exit code says it all.
		c := b.Command(append(way, `kill -INT $$`)...)
		c.SysProcAttr = sessionOfItsOwn(c.SysProcAttr)
		if c.Run(); c.ProcessState.ExitCode() != 130 {
			t.Errorf("%v, want exit code 130", c.ProcessState)
		}
	})
}

// SIGINT that somebody sends ends us as it ends the program; others are told by the exit code.
func TestInterruptedBySignal(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, b *testbed.Bed, way []string) {
		for _, n := range []syscall.Signal{unix.SIGINT, unix.SIGTERM} {
			c := b.Command(append(way, `echo running; exec sleep 1000`)...)
			running(t, c)
			c.Process.Signal(n)
			c.Wait()
			if n == unix.SIGINT {
				interruptedBySignal(t, c)
			} else if c.ProcessState.ExitCode() != 128+int(n) {
				t.Errorf("%v: %v", n, c.ProcessState)
			}
		}
	})
}

// running starts a command in a session of its own, and waits until its program says something.
func running(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.SysProcAttr = sessionOfItsOwn(c.SysProcAttr)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("%q, %v", line, err)
	}
}

// What coffer was started to ignore, as below nohup, does not reach the program either.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, b *testbed.Bed, way []string) {
		c := b.Command(append(way, `echo running; read x; exit 7`)...)
		c.Args = append([]string{"sh", "-c", `trap '' HUP INT; exec "$@"`, "sh", c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		running(t, c)
		c.Process.Signal(unix.SIGHUP)
		c.Process.Signal(unix.SIGINT)
		time.Sleep(100 * time.Millisecond) // what is passed on has arrived by then
		in.Write([]byte("\n"))
		if c.Wait(); c.ProcessState.ExitCode() != 7 {
			t.Errorf("%v, want the program's own exit code", c.ProcessState)
		}
	})
}

// Who asks a program three times to end does not wait for it any longer, and is told so. A
// sandbox that stays does.
func TestInsisted(t *testing.T) {
	t.Parallel()
	onEachWay(t, func(t *testing.T, b *testbed.Bed, way []string) {
		if way[0] == "jail" {
			return // there it is the program itself that gets signals
		}
		c := b.Command(append(way, `trap 'echo heard' TERM; trap "" HUP; echo running; while :; do sleep 0.02; done`)...)
		c.SysProcAttr = sessionOfItsOwn(c.SysProcAttr)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range 3 { // each when the one before has been heard
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			c.Process.Signal(unix.SIGTERM)
		}
		c.Wait()
		if c.ProcessState.ExitCode() != 137 || !strings.Contains(said.String(), "coffer: you asked three times") || strings.Contains(said.String(), "gone") {
			t.Errorf("%v: %q", c.ProcessState, said.String())
		}
		if out, err := b.Command("exec", "-m", "s", "--", "echo", "still").CombinedOutput(); err != nil || string(out) != "still\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// Who gives up while git makes a worktree is not told that git failed, and nothing is left.
func TestGivenUpInGit(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		quietly(t, b.Program("sh", "-c", "git init -q . && echo x >file && git add . && git -c user.name=Ada -c user.email=ada@example.com commit -qm first"))
		quietly(t, b.Command("exec", "--create", "--name", "kept", "--", "true"))
		quietly(t, b.Program("sh", "-c", "git clone -q . ../other && rm -f .git/info/attributes ../other/.git/info/attributes && mkfifo .git/info/attributes ../other/.git/info/attributes"))
		for _, test := range []struct {
			repository string
			args       []string
		}{
			{".", []string{"exec", "--create", "--name", "new", "--", "true"}},
			{".", []string{"fork", "kept", "--name", "new"}},
			{"../other", []string{"include", "--repo", "../other", "-m", "kept"}},
		} {
			c := b.Command(test.args...)
			c.SysProcAttr = sessionOfItsOwn(c.SysProcAttr)
			var said strings.Builder
			c.Stdout, c.Stderr = &said, &said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			// Git opens it when it is about to write the files, and waits for what it says.
			held, err := os.OpenFile(filepath.Join(c.Dir, test.repository, ".git/info/attributes"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.Process.Signal(unix.SIGINT)
			c.Wait()
			held.Close()
			interruptedBySignal(t, c)
			if said.Len() > 0 {
				t.Errorf("%q: %s", test.args, said.String())
			}
		}
		if out, err := b.Program("sh", "-c", "git branch --list coffer/new; git -C ../other branch --list 'coffer/*'").CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("left behind: %s, %v", out, err)
		}
	})
}

// sessionOfItsOwn keeps a process from the terminal of who runs the tests.
func sessionOfItsOwn(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a == nil {
		a = &syscall.SysProcAttr{}
	}
	a.Setsid = true
	return a
}
