package jail

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func TestExitCodes(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		s.write(t, filepath.Join(s.Work, "script"), "echo no interpreter named; exit 3\n")
		os.Chmod(filepath.Join(s.Work, "script"), 0o755)
		s.write(t, filepath.Join(s.Work, "bad"), "#!/no/such/interpreter\n")
		os.Chmod(filepath.Join(s.Work, "bad"), 0o755)
		for _, c := range []struct {
			argv []string
			code int
		}{
			{[]string{"true"}, 0}, {[]string{"false"}, 1}, {[]string{"sh", "-c", "exit 42"}, 42},
			{[]string{"./script"}, 3}, {[]string{filepath.Join(s.Work, "script")}, 3},
		} {
			if r := s.run(t, s.policy(c.argv...).in(layer)); r.code != c.code {
				t.Errorf("%v: want %d, got %v", c.argv, c.code, r)
			}
		}
		for argv, want := range map[string]string{"no-such-command": "command not found", "./bad": "interpreter", s.Work: "is a directory", "./file": ""} {
			if r := s.run(t, s.policy(argv).in(layer)); r.code != 125 || !strings.Contains(r.err, want) {
				t.Errorf("%s: want %q, got %v", argv, want, r)
			}
		}
		// By a signal: as it is if this process became the program, or as shells say it.
		want := 128 + int(unix.SIGTERM)
		if layer == Landlock {
			want = -1
		}
		if r := s.shell(t, layer, "kill -TERM $$"); r.code != want {
			t.Errorf("by a signal: want %d, got %v", want, r)
		}
	})
}

// started is a program in a jail that has said that it runs.
func (s *stage) started(t *testing.T, w written) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := s.command(t, w)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil {
		t.Fatalf("it did not start: %q, %v", line, err)
	}
	return c, r
}

// A signal that is sent to coffer reaches the program.
func TestSignals(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
			if signal.Ignored(sig) {
				continue // by who started the tests
			}
			w := s.policy("sh", "-c", `trap 'exit 9' TERM INT HUP USR1; echo runs; while :; do sleep 0.05; done`).in(layer)
			c, _ := s.started(t, w)
			c.Process.Signal(sig)
			c.Wait()
			if got := c.ProcessState.ExitCode(); got != 9 {
				t.Errorf("%v: %v", sig, c.ProcessState)
			}
		}
	})
}

// nohup holds for the program.
func TestIgnoredSignals(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		w := s.policy("sh", "-c", `echo runs; read x; grep SigIgn /proc/self/status`).in(layer)
		c := s.command(t, w)
		c = s.Program("/bin/sh", "-c", `trap '' HUP; exec "$@"`, "sh", c.Args[0], c.Args[1], c.Args[2])
		in, _ := c.StdinPipe()
		out, _ := c.StdoutPipe()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		r.ReadString('\n')
		c.Process.Signal(unix.SIGHUP)
		fmt.Fprintln(in, "go on")
		line, _ := r.ReadString('\n')
		c.Wait()
		if !strings.HasSuffix(strings.TrimSpace(line), "1") {
			t.Errorf("%q, %v", line, c.ProcessState)
		}
	})
}

// Killing coffer ends the program, and in a process namespace all that it started.
func TestKilled(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		if layer == Landlock {
			return // coffer is the program
		}
		fifo := filepath.Join(s.Work, "alive")
		if err := unix.Mkfifo(fifo, 0o666); err != nil {
			t.Fatal(err)
		}
		os.Chmod(fifo, 0o666)
		// Both hold the fifo; its reader sees their end.
		w := s.policy("sh", "-c", `exec 3>alive; setsid sleep 1000 & echo runs; sleep 1000`).in(layer)
		alive := make(chan *os.File, 1)
		go func() {
			f, _ := os.Open(fifo)
			alive <- f
		}()
		c, _ := s.started(t, w)
		f := <-alive
		defer f.Close()
		c.Process.Kill()
		f.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := f.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("something still runs: %v", err)
		}
	})
}

// What a program leaves running in the background ends with it.
func TestBackground(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		r := s.shell(t, Namespaces, `(setsid sleep 1000 >/dev/null 2>&1 &) ; ls /proc | grep -c '^[0-9]'`)
		if r.code != 0 {
			t.Fatal(r)
		}
		if n := strings.TrimSpace(r.out); n == "" || len(n) > 1 {
			t.Errorf("it sees %s processes", n)
		}
		// The first of them is a copy of coffer, with the user's environment.
		v := &victims{stage: s}
		for abi := range 8 {
			w := s.policy()
			w.ABI = abi
			what := []string{"environ:1", "memory:1", "ptrace:1", "open:/proc/1/mem", "list:/proc/1/root", "list:/proc/1/cwd"}
			for i, got := range v.try(t, &w, what) {
				if got == "ok" {
					t.Errorf("%s works on the first process", what[i])
				}
			}
			if got := v.try(t, &w, []string{"environ:self", "open:/proc/self/mem", "list:/proc/self/root", "list:/proc/self/cwd"}); strings.Join(got, "") != "okokokok" {
				t.Errorf("it cannot look into itself, so this proves nothing: %v", got)
			}
		}
	})
}

// In a terminal the program is in the foreground: keys send it signals, once, and it can be
// stopped and continued.
func TestTerminal(t *testing.T) {
	if signal.Ignored(unix.SIGINT) {
		t.Skip("who started the tests ignores Ctrl-C, and no shell can change that")
	}
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		w := s.policy("sh", "-c", `trap 'echo int' INT; trap 'minded=1' USR1; echo runs; until [ "$minded" ]; do sleep 0.01; done; echo minded; read x; echo got; read y; echo end $x $y; test -t 0 && test -w /dev/tty && exit 5`).in(layer)
		c, tty := s.onTerminal(t, w)
		defer tty.Close()
		r := bufio.NewReader(tty)
		wait := func(want string) string {
			t.Helper()
			defer time.AfterFunc(time.Minute, func() { c.Process.Kill() }).Stop() // such a file has no deadlines
			all := ""
			for !strings.Contains(all, want) {
				b, err := r.ReadByte()
				if err != nil {
					t.Fatalf("waiting for %q: %v after %q", want, err, all)
				}
				all += string(b)
			}
			return all
		}
		wait("runs")
		c.Process.Signal(unix.SIGUSR1) // until it gets one, a program may get a key's signal twice
		wait("minded")
		fmt.Fprint(tty, "a\n")
		wait("got")
		fmt.Fprint(tty, "\x03") // Ctrl-C
		wait("int")
		fmt.Fprint(tty, "b\n")
		if all := wait("end"); strings.Count(all, "int") != 0 {
			t.Errorf("the signal came twice: %q", all)
		}
		c.Wait()
		if c.ProcessState.ExitCode() != 5 {
			t.Errorf("%v", c.ProcessState)
		}
	})
}

// onTerminal starts a jail on a terminal of its own.
func (s *stage) onTerminal(t *testing.T, w written) (*exec.Cmd, *os.File) {
	t.Helper()
	c := s.command(t, w)
	c.SysProcAttr = sessionOf(c.SysProcAttr)
	tty, err := pty.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, tty
}

func sessionOf(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a == nil {
		a = &syscall.SysProcAttr{}
	}
	a.Setsid, a.Setctty = true, true
	return a
}

// When the program stops, coffer does, so that a shell gets its prompt back.
func TestStopped(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		w := s.policy("sh", "-c", `echo runs; kill -STOP $$; exit 6`).in(layer)
		c, _ := s.started(t, w)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("%v, %v", status, err)
		}
		c.Process.Signal(unix.SIGCONT)
		c.Wait()
		if c.ProcessState.ExitCode() != 6 {
			t.Errorf("%v", c.ProcessState)
		}
	})
}
