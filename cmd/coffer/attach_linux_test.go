package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/creack/pty"
)

// answering is a program that answers what is typed, and ends when it is told to.
const answering = `printf '\033[?2004h\033[>1u\033[6n'; echo ready; while :; do read -r l && echo "heard $l"; test "$l" = bye && exit 7; done`

// A program on a terminal of its own is seen, typed to, left, and come back to, by several
// at a time; nothing that happens to them happens to it.
func TestAttach(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		quietly(t, b.Command("exec", "--create", "--name", "k", "--", "true"))
		quietly(t, b.Command("exec", "-m", "k", "--detach", "--tty", "--", "sh", "-c", answering))

		s := onScreen(t, 24, 80, b.Command("attach", "k"))
		s.see("ready")
		s.see("\x1b[>1u") // how the keyboard is to speak
		s.see("\x1b[?2004h")
		s.typeIn("one\r")
		s.see("heard one")
		s.typeIn("\x1b[92;5u") // one of them is the program's
		s.typeIn("x\r")
		s.see("^[[92;5ux\r\nheard ")
		s.typeIn("\x1c")
		s.typeIn("\x1c")
		s.see("k goes on; back with 'coffer attach k'")
		s.end(0)
		s.see("\x1b[?2004l") // the terminal is as it was
		s.see("\x1b[<1u")

		s = onScreen(t, 24, 80, b.Command("attach", "k"))
		s.see("heard one") // from before
		if strings.Contains(s.text(), "\x1b[6n") {
			t.Error("the new terminal is asked what the old one was asked")
		}
		s.typeIn("two\r")
		s.see("heard two")
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-s.ended

		s = onScreen(t, 24, 80, b.Command("attach", "k"))
		other := onScreen(t, 30, 90, b.Command("attach", "k"))
		other.see("heard two")
		s.see("heard two")
		s.typeIn("three\r")
		s.see("heard three")
		other.see("heard three")
		other.typeIn("bye\r")
		s.end(7)
		other.end(7)
		c := b.Command("attach", "k")
		if out, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != 7 || !strings.Contains(string(out), "coffer: exit status 7") {
			t.Errorf("afterwards: %v\n%s", c.ProcessState, out)
		}
	})
}

// Who attaches has the program draw itself anew, whatever the size, and gives it its own.
func TestAttachRedraws(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		quietly(t, b.Command("exec", "--create", "--name", "k", "--", "true"))
		quietly(t, b.Command("exec", "-m", "k", "--detach", "--tty", "--", "sh", "-c",
			`printf '\033[?1049h'; trap 'echo size $(stty size)' WINCH; while :; do sleep 0.02; done`))
		for range 2 {
			s := onScreen(t, 24, 80, b.Command("attach", "k"))
			s.see("\x1b[?1049h") // it has the whole screen
			s.see("size 24 80")
			s.resize(40, 100)
			s.see("size 40 100")
			s.resize(24, 80)
			eventually(t, func() error {
				if !strings.HasSuffix(strings.TrimSpace(s.text()), "size 24 80") {
					return fmt.Errorf("the screen: %q", s.text())
				}
				return nil
			})
			s.typeIn("\x1c\x1c")
			s.end(0)
		}
		quietly(t, b.Command("stop", "k"))
	})
}

// What is said to who leaves a program begins a line of its own, though the program has begun
// one, and is still there.
func TestLeaveInLine(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		quietly(t, b.Command("exec", "--create", "--name", "k", "--", "true"))
		quietly(t, b.Command("exec", "-m", "k", "--detach", "--tty", "--", "sh", "-c", "printf 'your turn: '; exec sleep 1000"))
		s := onScreen(t, 24, 80, b.Command("attach", "k"))
		s.see("your turn: ")
		s.typeIn("\x1c\x1c")
		s.see("\r\ncoffer: k goes on; back with")
		s.end(0)
		if strings.Contains(s.text(), "\x1b]2;") {
			t.Errorf("a title, though there is no agent: %q", s.text())
		}
	})
}

// An agent whose terminal is closed goes on, and is there to come back to; so is one that
// was left. Its end is told to who is there then.
func TestAIOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		file := filepath.Join(b.Home, ".local/bin/mine")
		for _, err := range []error{
			os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte("#!/bin/sh\n"+answering+"\n"), 0o755),
			os.MkdirAll(filepath.Join(b.Home, ".config/coffer"), 0o755),
			os.WriteFile(filepath.Join(b.Home, ".config/coffer/config.toml"), []byte("[agents.mine]\n"), 0o644),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		own(t, b)
		closed(t, b.Command("ai", "mine", "--create", "--name", "a"), "one\r", "heard one")
		s := onScreen(t, 24, 100, b.Command("attach", "a"))
		s.see("heard one")
		s.typeIn("two\r")
		s.see("heard two")
		s.typeIn("\x1c\x1c")
		s.end(0)
		s.entitled("a goes on")
		if out, err := b.Command("attach", "a").CombinedOutput(); err == nil || !strings.Contains(string(out), "attach on a terminal") {
			t.Errorf("without a terminal: %v\n%s", err, out)
		}
		// Who wants to go on with it is with the one that runs: a second one would talk in
		// the same conversation.
		if out, err := b.Command("ai", "-m", "a", "more").CombinedOutput(); err == nil || !strings.Contains(string(out), "mine still runs in sandbox a\nhint: go back to it with 'coffer attach a'") {
			t.Errorf("with a prompt: %v\n%s", err, out)
		}
		s = onScreen(t, 24, 100, b.Command("ai", "-m", "a"))
		s.see("mine still runs in sandbox a")
		s.see("heard two")
		s.typeIn("bye\r")
		s.see("go on with 'coffer ai -m a'")
		s.end(7)
		s.entitled("go on with")
	})
}

// Ctrl-\ leaves a detached program that is only watched, and any other command, without a
// dump of goroutines.
func TestQuitKey(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		quietly(t, b.Command("exec", "--create", "--name", "k", "--", "true"))
		quietly(t, b.Command("exec", "-m", "k", "--detach", "--", "sh", "-c", "echo begun; exec sleep 1000"))
		for _, c := range []struct {
			args []string
			code int
		}{{[]string{"attach", "k"}, 0}, {[]string{"logs", "-f", "k"}, 131}} {
			s := onScreen(t, 24, 80, b.Command(c.args...))
			s.see("begun")
			s.typeIn("\x1c")
			s.end(c.code)
			if strings.Contains(s.text(), "goroutine") || strings.Contains(s.text(), "SIGQUIT") {
				t.Errorf("%v: %q", c.args, s.text())
			}
		}
		quietly(t, b.Command("stop", "k"))
	})
}

// entitled wants the title of the agent mine in the sandbox a from the beginning on, and the
// one that was there before the last word.
func (s *screen) entitled(word string) {
	s.t.Helper()
	s.see(word)
	rest := s.text()
	for _, want := range []string{"\x1b[22;2t\x1b]2;mine: a\a", "heard two", "\x1b[23;2t", word} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			s.t.Fatalf("%q is not on the screen, or not in its place: %q", want, s.text())
		}
		rest = after
	}
}

// closed runs a command on a terminal that is closed, as a window is or a line is cut,
// when it has shown something.
func closed(t *testing.T, c *exec.Cmd, keys, shown string) {
	t.Helper()
	user, line, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdin, c.Stdout, c.Stderr = line, line, line
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line.Close()
	if _, err := user.WriteString(keys); err != nil {
		t.Fatal(err)
	}
	var seen []byte
	for buf := make([]byte, 512); !bytes.Contains(seen, []byte(shown)); {
		n, err := user.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen = append(seen, buf[:n]...)
	}
	user.Close()
	waitFor(t, c)
}

func quietly(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}
