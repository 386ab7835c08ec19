package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// inShell is a shell with job control on a new terminal, with what is typed into it.
func inShell(t *testing.T, b *testbed.Bed, command string) *screen {
	t.Helper()
	c := b.Program("bash", "--norc", "--noprofile", "-i")
	c.Env = append(c.Env, "PS1="+prompt, "HISTFILE=", "TERM=xterm")
	s := onScreen(t, 24, 100, c)
	s.see(prompt)
	s.typeIn(command + "\r")
	return s
}

// hear does something and waits until the screen has shown some texts, one after the other,
// since.
func (s *screen) hear(act func(), texts ...string) {
	s.t.Helper()
	before := len(s.text())
	act()
	eventually(s.t, func() error {
		rest := s.text()[before:]
		for _, text := range texts {
			_, after, ok := strings.Cut(rest, text)
			if !ok {
				return fmt.Errorf("%q is not on the screen: %q", text, s.text()[before:])
			}
			rest = after
		}
		return nil
	})
}

// keys is an act: somebody types.
func (s *screen) keys(keys string) func() { return func() { s.typeIn(keys) } }

// echoes has a program answer that repeats what is typed.
func (s *screen) echoes(word string) {
	s.t.Helper()
	s.hear(s.keys(word+"\r"), word+"\r\n", word+"\r\n")
}

// stops presses Ctrl-Z and wants the shell back, with the terminal as it was.
func (s *screen) stops() {
	s.t.Helper()
	s.hear(s.keys("\x1a"), "Stopped", prompt)
	s.shell()
}

// shell wants the shell to have the terminal.
func (s *screen) shell() {
	s.t.Helper()
	s.hear(s.keys("echo it is $((40+2)) $(stty -a | grep -o -- '-*opost')\r"), "it is 42 opost\r\n", prompt)
}

const prompt = "ready> "

// gone is how a shell waits for the end of a job that was stopped.
const gone = "while jobs %1; do sleep 0.05; done; echo gone for go''od"

// repeating is a program that repeats what is typed, once it has said that it begins.
const repeating = ` sh -c 'echo be""gun; exec cat'`

// onEachJob runs a test as every user, with the ways to run a program that a shell can stop.
func onEachJob(t *testing.T, test func(t *testing.T, b *testbed.Bed, coffer string)) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		quietly(t, b.Command("exec", "--create", "--name", "s", "--", "true"))
		for _, command := range []string{"run --", "exec -m s --", "exec -m s --root --"} {
			t.Run(command, func(t *testing.T) { test(t, b, "coffer "+command) })
		}
	})
}

// Ctrl-Z gives the terminal back to the shell, and fg to the program.
func TestSuspend(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		s := inShell(t, b, coffer+repeating)
		s.see("begun")
		s.echoes("one")
		for i := range 2 {
			s.stops()
			s.hear(s.keys("fg\r"), coffer)
			s.echoes(fmt.Sprint("back", i))
		}
		s.hear(s.keys("\x04"), prompt)
		s.typeIn("exit 3\r")
		s.end(3)
	})
}

// A program that stops in the middle of its picture: the shell has its own screen, and the
// picture comes back, drawn anew.
func TestSuspendFullScreen(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		script := filepath.Join(b.Work, "picture")
		if err := os.WriteFile(script, []byte(`trap 'echo drawn for $(stty size)' WINCH
			trap 'echo went on' CONT
			printf '\033[?1049h\033[?2004h\033[?25l'; echo begun
			read -r line; kill -STOP $$
			while :; do sleep 0.02; done`), 0o755); err != nil {
			t.Fatal(err)
		}
		s := inShell(t, b, coffer+" bash ./picture")
		s.see("begun")
		s.hear(s.keys("\r"), "Stopped", prompt)
		shown := s.text()
		for _, undone := range []string{"\x1b[?1049l", "\x1b[?2004l", "\x1b[?25h"} {
			if i := strings.LastIndex(shown, undone); i < 0 || i > strings.LastIndex(shown, "Stopped") {
				t.Errorf("%q does not come before the shell: %q", undone, shown)
			}
		}
		s.shell()
		before := len(s.text())
		s.hear(s.keys("fg\r"), "went on")
		eventually(t, func() error {
			shown := s.text()[before:]
			for _, redone := range []string{"\x1b[?1049h", "\x1b[?2004h", "\x1b[?25l", "drawn for 24 100"} {
				if !strings.Contains(shown, redone) {
					return fmt.Errorf("%q is not on the screen: %q", redone, shown)
				}
			}
			return nil
		})
		s.hear(s.keys("\x03"), prompt)
		s.hear(s.keys("echo code $?\r"), "code 130")
	})
}

// Who waits for coffer stops with it; a signal does what the key does; and a program that
// is stopped hears what ends it.
func TestSuspendOthers(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		s := inShell(t, b, `bash -c "`+coffer+repeating+`; echo and then \$?"`)
		s.see("begun")
		s.echoes("one")
		s.stops()
		s.hear(s.keys("fg\r"), coffer)
		s.echoes("two")
		s.hear(s.keys("\x04"), "and then 0", prompt)

		s.hear(s.keys(coffer+repeating+"\r"), "begun")
		s.echoes("one")
		s.hear(func() { s.kill(unix.SIGTSTP) }, "Stopped", prompt)
		s.shell()
		s.hear(s.keys("fg\r"), coffer)
		s.echoes("two")
		s.stops()
		s.hear(s.keys("kill %1; "+gone+"\r"), "Exit 143", "gone for good", prompt)
		s.shell()
	})
}

// kill sends a signal to the command that the shell on a screen runs.
func (s *screen) kill(n syscall.Signal) {
	s.t.Helper()
	for _, p := range processes() {
		if p.parent == s.cmd.Process.Pid && strings.Contains(p.args, "coffer") {
			if err := syscall.Kill(p.pid, n); err != nil {
				s.t.Fatal(err)
			}
			return
		}
	}
	s.t.Fatal("the shell runs nothing")
}

// In the background there is nothing to read, and no terminal to be stopped for.
func TestBackground(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		s := inShell(t, b, coffer+` sh -c "cat; echo read ''all" & wait; echo wai''ted`)
		s.see("read all")
		s.see("waited")
	})
}

// A program that was stopped goes on in the background, where it prints and can be ended,
// and has the terminal again in the foreground.
func TestSuspendBackground(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		sign := filepath.Join(b.Work, "sign")
		os.Remove(sign)
		// Not sh: one that vforks cannot be stopped in that moment, neither in a sandbox nor outside.
		s := inShell(t, b, coffer+` bash -c 'echo be""gun; while ! test -e sign; do sleep 0.05; done; printf "w\033[6nent o\033[?1049l\033[?1000hn\n"; read -r l; echo "heard $l"; exit 6'`)
		s.see("begun")
		s.stops()
		s.hear(s.keys("bg\r"), prompt)
		s.shell()
		s.hear(func() {
			if err := os.WriteFile(sign, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "went on")
		s.shell()
		s.hear(s.keys("fg\r"), coffer, "\x1b[?1000h") // which it was not told in the background
		s.hear(s.keys("two\r"), "heard two", prompt)
		s.hear(s.keys("echo code $?\r"), "code 6")

		s.hear(s.keys(coffer+repeating+"\r"), "begun")
		s.stops()
		s.hear(s.keys("bg\r"), prompt)
		s.shell()
		s.hear(s.keys("kill %1; "+gone+"\r"), "Exit 143", "gone for good", prompt)
		s.shell()
	})
}

// One that draws on the whole screen does not do so on the shell's.
func TestSuspendBackgroundFullScreen(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		s := inShell(t, b, coffer+` sh -c 'printf "\033[?1049h"; echo be""gun; exec cat'`)
		s.see("begun")
		s.stops()
		s.hear(s.keys("bg\r"), prompt)
		s.hear(s.keys("while ! jobs %1 | grep -q Stopp; do sleep 0.05; done; echo stopped a''gain\r"), "stopped again", prompt)
		s.shell()
		s.hear(s.keys("fg\r"), "\x1b[?1049h")
		s.echoes("two")
		s.stops()
		s.hear(s.keys("bg\r"), prompt)
		s.hear(s.keys("kill %1; "+gone+"\r"), "Exit 143", "gone for good", prompt)
		s.shell()
	})
}

// A shell inside has its own jobs, and they are none of coffer's.
func TestSuspendInside(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		s := inShell(t, b, coffer+" env PS1='inside> ' bash --norc -i")
		s.see("\x1b[?2004hinside> ")
		s.hear(s.keys(repeating+"\r"), "begun")
		s.echoes("one")
		s.hear(s.keys("\x1a"), "Stopped                 sh -c", "inside> ")
		s.hear(s.keys("echo still ${COFFER_SANDBOX:+inside}\r"), "still inside", "inside> ")
		s.hear(s.keys("fg\r"), "sh -c")
		s.echoes("two")
		s.hear(s.keys("\x04"), "inside> ")
		s.hear(s.keys("suspend\r"), "Stopped", prompt) // but this is
		s.shell()
		s.hear(s.keys("fg\r"), coffer)
		s.hear(s.keys("echo still ${COFFER_SANDBOX:+inside}\r"), "still inside", "inside> ")
		s.hear(s.keys("exit 5\r"), prompt)
		s.hear(s.keys("echo code $?\r"), "code 5")
	})
}

// Where no shell could have coffer go on, the program goes on by itself.
func TestSuspendAlone(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`trap 'echo went on' CONT; echo ready; while :; do read -r l && echo "heard $l"; test "$l" = bye && exit 7; done`))
		s.see("ready")
		s.hear(s.keys("\x1a"), "went on")
		s.hear(s.keys("two\r"), "heard two")
		s.typeIn("bye\r")
		s.end(7)
	})
}

// A program that stops all the time is its user's to resume, or to end.
func TestSuspendHostile(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		// Not sh: one that vforks cannot be stopped in that moment, neither in a sandbox nor outside.
		s := inShell(t, b, coffer+` bash -c 'echo be""gun; while :; do kill -STOP $$; done'`)
		s.see("begun")
		s.see("Stopped")
		for range 2 {
			s.hear(s.keys("fg\r"), coffer, "Stopped", prompt)
			s.shell()
		}
		s.hear(s.keys("kill %1; "+gone+"\r"), "gone for good", prompt)
		s.shell()
	})
}

// The program of a name is searched as the kernel says, on a terminal too.
func TestTerminalSearch(t *testing.T) {
	t.Parallel()
	onEachJob(t, func(t *testing.T, b *testbed.Bed, coffer string) {
		for dir, mode := range map[string]os.FileMode{"no": 0o644, "yes": 0o755} {
			if err := os.MkdirAll(filepath.Join(b.Work, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(b.Work, dir, "tool"), []byte("echo found in "+dir+" on $(ps -o tpgid= -p $$ | tr -d ' ') is $$\n"), mode); err != nil {
				t.Fatal(err)
			}
		}
		with := strings.Replace(coffer, " --", ` -e PATH=$PWD/no:$PWD/yes:$PATH --`, 1)
		s := inShell(t, b, with+" tool; "+coffer+" ./no/tool; echo code $?")
		s.see("found in yes on ")
		line, _, _ := strings.Cut(s.text()[strings.Index(s.text(), "found in yes on "):], "\r")
		if words := strings.Fields(line); len(words) == 7 && words[4] != words[6] {
			t.Errorf("it is not in the foreground: %q", line)
		}
		s.see("code 126")
	})
}

// A program that is kept stops for who is attached, and goes on with him, with the next one
// who comes, and when nobody is there any more, however they went.
func TestSuspendKept(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		quietly(t, b.Command("exec", "--create", "--name", "k", "--", "true"))
		quietly(t, b.Command("exec", "-m", "k", "--detach", "--tty", "--", "sh", "-c", answering))
		s := inShell(t, b, "coffer attach k")
		s.see("ready\r\n")
		s.stops()
		s.hear(s.keys("fg\r"), "coffer attach k")
		s.hear(s.keys("one\r"), "heard one")
		s.stops()
		other := onScreen(t, 24, 80, b.Command("attach", "k"))
		other.see("heard one")
		other.hear(other.keys("two\r"), "heard two")
		s.hear(s.keys("fg\r"), "heard two") // which it had missed
		s.hear(s.keys("three\r"), "heard three")
		other.see("heard three")
		other.typeIn("\x1c\x1c")
		other.end(0)

		s.stops()
		s.kill(unix.SIGKILL)
		s.hear(s.keys("\r"), prompt)
		s.hear(s.keys("coffer attach k\r"), "ready\r\n", "heard three")
		s.hear(s.keys("four\r"), "heard four")
		s.hear(func() { s.kill(unix.SIGHUP) }, "k goes on", prompt)
		s.hear(s.keys("coffer attach k\r"), "heard four")
		s.hear(s.keys("bye\r"), prompt)
		s.hear(s.keys("echo code $?\r"), "code 7")
	})
}
