package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A screen is a user's terminal with a coffer command on it.
type screen struct {
	t    *testing.T
	user *os.File // the terminal's other end: what the user types and sees
	line *os.File // the terminal as programs have it
	cmd  *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
	ended chan struct{}
	was   *unix.Termios
}

// onScreen starts a command on a new terminal.
func onScreen(t *testing.T, rows, cols uint16, cmd *exec.Cmd) *screen {
	t.Helper()
	user, line, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, user: user, line: line, cmd: cmd, ended: make(chan struct{})}
	s.resize(rows, cols)
	s.was = s.settings()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(s.watch)
	go func() { cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-s.ended
		line.Close()
		user.Close()
		reading.Wait()
	})
	return s
}

// openTerminal opens a new terminal. The user's end of it can be closed while somebody reads: a program
// that was stopped may hold the other one.
func openTerminal() (user, line *os.File, err error) {
	user, line, err = pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer user.Close()
	fd, err := unix.FcntlInt(user.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	return os.NewFile(uintptr(fd), "terminal"), line, err
}

func (s *screen) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := s.user.Read(buf)
		s.mu.Lock()
		s.shown.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

// see waits until the screen has shown a text.
func (s *screen) see(text string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if shown := s.text(); !strings.Contains(shown, text) {
			return fmt.Errorf("%q is not on the screen: %q", text, shown)
		}
		return nil
	})
}

func (s *screen) typeIn(keys string) {
	s.t.Helper()
	if _, err := s.user.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) resize(rows, cols uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.line.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) settings() *unix.Termios {
	s.t.Helper()
	termios, err := unix.IoctlGetTermios(int(s.line.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return termios
}

// end waits for the command's end, wants the exit code that a shell would show, and the
// terminal as it was.
func (s *screen) end(code int) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("the command does not end; on the screen: %q", s.text())
	}
	if got := shellCode(s.cmd); got != code {
		s.t.Errorf("exit code %d (%v), want %d; on the screen: %q", got, s.cmd.ProcessState, code, s.text())
	}
	if now := s.settings(); *now != *s.was {
		s.t.Errorf("the terminal's settings are %+v, were %+v", now, s.was)
	}
}

// shellCode is what a shell shows of a command that has ended.
func shellCode(c *exec.Cmd) int {
	if s := c.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		return 128 + int(s.Signal())
	}
	return c.ProcessState.ExitCode()
}

// pending is how much the next program would read from the terminal.
func (s *screen) pending() int {
	s.t.Helper()
	raw := *s.was
	raw.Lflag &^= unix.ICANON // else only whole lines count
	fd := int(s.line.Fd())
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		s.t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// patience bounds every wait. It is long because machines can be busy.
const patience = 2 * time.Minute

// eventually polls until there is no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// onEachScreen runs a test as every user with the way to start a shell script in a
// sandbox: by run, and by exec in one that stays.
func onEachScreen(t *testing.T, test func(t *testing.T, sh func(script string) *exec.Cmd)) {
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Run("run", func(t *testing.T) {
			test(t, func(script string) *exec.Cmd { return b.Command("run", "--", "sh", "-c", script) })
		})
		t.Run("exec", func(t *testing.T) {
			if out, err := b.Command("exec", "--create", "--name", "s", "--", "true").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			test(t, func(script string) *exec.Cmd { return b.Command("exec", "-m", "s", "--", "sh", "-c", script) })
		})
	})
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 40, 100, sh(`test -t 0 && test -t 1 && test -t 2 && echo a terminal; stty size; tty; exit 5`))
		s.see("a terminal\r\n40 100\r\n/dev/pts/")
		s.end(5)
	})
}

func TestTerminalWithoutSize(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 0, 0, sh(`stty size; echo it works`))
		s.see("0 0\r\nit works")
		s.end(0)
	})
}

func TestTerminalTyping(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`read -r a; echo "<$a>"; stty -echo; echo secretly; read -r a; echo "<$a>"; cat; echo the end`))
		s.typeIn("héllo\r")
		s.see("<héllo>\r\nsecretly")
		s.typeIn("unseen\r")
		s.see("<unseen>")
		s.typeIn("\x04") // Ctrl-D ends cat
		s.see("the end")
		s.end(0)
		if strings.Count(s.text(), "unseen") != 1 {
			t.Errorf("what was typed without echo is shown: %q", s.text())
		}
	})
}

func TestTerminalResize(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done`))
		s.see("ready")
		s.resize(33, 77)
		s.see("33 77")
		s.resize(50, 132)
		s.see("50 132")
		s.typeIn("\x03")
		s.end(130)
	})
}

func TestTerminalCtrlC(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`echo ready; exec sleep 1000`))
		s.see("ready")
		s.typeIn("\x03")
		s.end(130)

		// It is the program's to decide about, not coffer's.
		s = onScreen(t, 24, 80, sh(`trap 'echo caught' INT; echo ready; sleep 1000; echo went on; exit 3`))
		s.see("ready")
		eventually(t, func() error { return inForeground(s, "sleep") })
		s.typeIn("\x03")
		s.see("went on")
		s.see("caught")
		s.end(3)
	})
}

// inForeground is satisfied when some program of the name runs below the guest agent
// that serves a screen. A shell prints before it forks, so output says too little.
func inForeground(s *screen, name string) error {
	for _, p := range processes() {
		if p.name == name && p.args == name+" 1000" && p.env("COFFER_SANDBOX") != "" && p.sandboxOf(s.cmd) {
			return nil
		}
	}
	return fmt.Errorf("%s does not run", name)
}

func TestTerminalSignals(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`echo ready; exec sleep 1000`))
		s.see("ready")
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.end(143)

		s = onScreen(t, 24, 80, sh(`echo ready; exec sleep 1000`))
		s.see("ready")
		s.cmd.Process.Signal(syscall.SIGHUP)
		s.end(129)
	})
}

// A program that ignores what should end it does not keep its user.
func TestTerminalInsist(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		s := onScreen(t, 24, 80, sh(`trap 'echo no' TERM; echo ready; while :; do sleep 0.02; done`))
		s.see("ready")
		for n := 1; n <= 2; n++ {
			s.cmd.Process.Signal(syscall.SIGTERM)
			eventually(t, func() error {
				if strings.Count(s.text(), "no\r\n") < n {
					return fmt.Errorf("signal %d did not arrive: %q", n, s.text())
				}
				return nil
			})
		}
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Fatalf("it goes on: %q", s.text())
		}
		if now := s.settings(); *now != *s.was {
			t.Errorf("the terminal's settings are %+v, were %+v", now, s.was)
		}
		if s.cmd.ProcessState.ExitCode() <= 0 {
			t.Errorf("ended with %v", s.cmd.ProcessState)
		}
	})
}

// When the sandbox is killed under it, the command ends and leaves the terminal whole.
func TestTerminalGuestKilled(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := onScreen(t, 24, 80, b.Command("run", "--", "sh", "-c", `printf '\033[?1049h\033[?25l'; echo ready; exec sleep 1000`))
		s.see("ready")
		guest := 0
		for _, p := range processes() {
			if p.parent == s.cmd.Process.Pid && strings.HasPrefix(p.args, "coffer-guest") {
				guest = p.pid
			}
		}
		if guest == 0 {
			t.Fatal("there is no guest")
		}
		if err := syscall.Kill(guest, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.end(125)
		s.see("the sandbox is gone")
		s.see("\x1b[?25h")
		s.see("\x1b[?1049l")
	})
}

// What full-screen programs print passes; what could type for the user does not.
func TestTerminalFilter(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		const picture = "\x1b[?1049h\x1b[2J\x1b[3;4H\x1b[1;38;5;196mred\x1b[0m\x1b[?25l│é"
		s := onScreen(t, 24, 80, sh(`printf '\033[?1049h\033[2J\033[3;4H\033[1;38;5;196mred\033[0m\033[?25l│é'
			printf '\033[21t\033]0;title\007\033[20t\033P$qm\033\\'
			echo the end`))
		s.see(picture)
		s.see("the end")
		s.end(0)
		for _, query := range []string{"\x1b[21t", "\x1b[20t", "\x1bP$q"} {
			if strings.Contains(s.text(), query) {
				t.Errorf("%q reached the terminal: %q", query, s.text())
			}
		}
		// It left in the middle of its picture: the shell's screen is back.
		s.see("\x1b[?1049l")
		s.see("\x1b[?25h")
	})
}

// The answer to a question of a program that has ended is not typed into the shell.
// Coffer waits two seconds for it. A try in which we cannot say that the answer came
// within that time, because this machine is busy, says nothing and is made again.
func TestTerminalLateAnswer(t *testing.T) {
	t.Parallel()
	onEachScreen(t, func(t *testing.T, sh func(string) *exec.Cmd) {
		for range 20 {
			s := onScreen(t, 24, 80, sh(`printf '\033[6n'`))
			asked := time.Now()
			eventually(t, func() error {
				now := time.Now()
				if !strings.Contains(s.text(), "\x1b[5n") { // coffer's own question, when the program is gone
					asked = now
					return fmt.Errorf("nothing is asked: %q", s.text())
				}
				return nil
			})
			s.typeIn("\x1b[12;34R")
			s.typeIn("\x1b[0n")
			inTime := time.Since(asked) < time.Second
			s.end(0)
			n := s.pending()
			if n == 0 {
				return
			}
			if inTime {
				t.Fatalf("%d bytes are left for the shell", n)
			}
		}
		t.Skip("this machine is too slow to play a terminal")
	})
}

// sudo has a terminal of its own behind the user's.
func TestTerminalSudo(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		t.Parallel()
		s := onScreen(t, 30, 90, b.Command("run", "--", "sudo", "sh", "-c", `trap 'stty size' WINCH; id -u; stty size; echo ready; while :; do sleep 0.02; done`))
		s.see("0\r\n30 90\r\nready")
		s.resize(31, 91)
		s.see("31 91")
		s.typeIn("\x03")
		s.end(130)
	})
}

// Who gives a new sandbox no name is told which one it got.
func TestTerminalNewName(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := onScreen(t, 24, 80, b.Program("sh", "-c", `coffer exec --create -- true && echo "listed $(coffer ls --json | sed -n 's/.*"name": "\(.*\)",/\1/p')"`))
		s.see("listed ")
		s.end(0)
		said, listed, _ := strings.Cut(s.text(), "listed ")
		if want := "coffer: new sandbox " + strings.TrimSpace(listed); strings.TrimSpace(said) != want {
			t.Errorf("said %q, want %q", said, want)
		}
		s = onScreen(t, 24, 80, b.Command("exec", "--create", "--name", "mine", "--", "true"))
		s.end(0)
		if s.text() != "" {
			t.Errorf("said %q of a name that was given", s.text())
		}
	})
}

// One of the three descriptors is a terminal and the others are not: nobody gets one.
func TestTerminalHalf(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		c := b.Program("sh", "-c", `coffer run -- sh -c 'test -t 0 || test -t 1 || echo none' | cat; coffer run -- sh -c 'printf "\033[21tdropped\n"' </dev/null`)
		s := onScreen(t, 24, 80, c)
		s.see("none")
		s.see("dropped")
		s.end(0)
		if strings.Contains(s.text(), "\x1b[21t") {
			t.Errorf("the query reached the terminal: %q", s.text())
		}
	})
}

// Errors that the user has sent to a file arrive there, and the program still has a
// terminal; so does what coffer says.
func TestTerminalErrorsElsewhere(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		for _, how := range []string{"run", "exec --create --name apart", "exec -m apart", "run --root", "run -- sudo"} {
			c := b.Program("sh", "-c", `coffer `+how+` -- sh -c 'test -t 0 && test -t 1 && ! test -t 2 && echo a terminal; echo to the file >&2; stty size; exit 3' 2>errors`)
			s := onScreen(t, 24, 80, c)
			s.see("a terminal\r\n24 80\r\n")
			s.end(3)
			if got, err := os.ReadFile(filepath.Join(b.Work, "errors")); err != nil || !strings.Contains(string(got), "to the file\n") || strings.Contains(s.text(), "to the file") {
				t.Errorf("%s: the file has %q, %v, and the screen %q", how, got, err, s.text())
			}
		}
		s := onScreen(t, 24, 80, b.Program("sh", "-c", "coffer run --timeout 1ms -- sleep 1000 2>errors"))
		s.end(137)
		if got, err := os.ReadFile(filepath.Join(b.Work, "errors")); err != nil || !strings.Contains(string(got), "time limit") {
			t.Errorf("the file has %q, %v, and the screen %q", got, err, s.text())
		}
		// A program learns that nobody reads its errors.
		s = onScreen(t, 24, 80, b.Program("sh", "-c", `{ coffer run -- sh -c 'while echo x >&2; do :; done' 3>&1 1>&4 2>&3 | head -c 1 >/dev/null; } 4>&1`))
		s.end(0)
	})
}

// A log is shown line by line: what a program printed does not move the cursor to the
// lines above, which are somebody else's.
func TestLogOnTerminal(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		c := b.Command("run", "--detach", "--name", "loud", "--", "printf", `first\n\033[A\033[2K\033[1;31msecond\033[m\033]0;title\007\033[?1049h\nlast\n`)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, how := range [][]string{{"logs", "-f", "loud"}, {"attach", "loud"}, {"logs", "loud"}} {
			s := onScreen(t, 24, 80, b.Command(how...))
			s.see("first\r\n\x1b[1;31msecond\x1b[m\r\nlast\r\n")
			s.end(0)
		}
		// Positive control: in a file it is what the program printed.
		if out, err := b.Command("logs", "loud").Output(); err != nil || !strings.Contains(string(out), "\x1b[A\x1b[2K") {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// A hook that runs inside for what the user does outside prints on his terminal, between
// git's own lines: it does not move the cursor there, ask the terminal or fill the clipboard.
func TestHookOnTerminal(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		quietly(t, b.Program("git", "init", "-q", "."))
		who := []string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "--allow-empty", "-m", "x"}
		quietly(t, b.Program("git", who...))
		quietly(t, b.Command("exec", "--create", "--workspace", "worktree", "--name", "h", "--", "sh", "-c",
			`hook=$(git rev-parse --git-path hooks)/pre-commit && mkdir -p "${hook%/*}" && cat >"$hook" <<'END'
#!/bin/sh
printf 'first\n\033[A\033[2K\033[1;31msecond\033[m\033]52;c;eA==\007\033[6n\nlast\n'
END
chmod +x "$hook"`))
		place, err := b.Command("cd", "h").Output()
		if err != nil {
			t.Fatal(err)
		}
		commit := func() *exec.Cmd {
			return b.Program("git", append([]string{"-C", strings.TrimSpace(string(place))}, who...)...)
		}
		s := onScreen(t, 24, 80, commit())
		s.see("first\r\n\x1b[1;31msecond\x1b[m\r\nlast\r\n")
		s.end(0)
		// Positive control: in a file it is what the hook printed.
		if out, err := commit().CombinedOutput(); err != nil || !strings.Contains(string(out), "\x1b]52;c;eA==\a\x1b[6n") {
			t.Errorf("%q, %v", out, err)
		}
	})
}

// A terminal that goes away takes the program with it.
func TestTerminalGone(t *testing.T) {
	t.Parallel()
	binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		closed(t, b.Command("run", "--", "sh", "-c", `echo ready; exec sleep 1000`), "", "ready")
	})
}

// waitFor waits for a command's end with patience.
func waitFor(t *testing.T, c *exec.Cmd) {
	t.Helper()
	late := time.AfterFunc(patience, func() { c.Process.Kill() })
	err := c.Wait()
	if !late.Stop() {
		t.Fatalf("%v does not end", c.Args)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
}
