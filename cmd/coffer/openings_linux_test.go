package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// withPeer runs a test as every user, with a copy of the peer in the workspace.
func withPeer(t *testing.T, test func(t *testing.T, b *testbed.Bed)) {
	t.Parallel()
	binary(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		if err := os.WriteFile(filepath.Join(b.Work, "peer"), self, 0o755); err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

// must runs a command that works, and returns what it printed.
func must(t *testing.T, b *testbed.Bed, args ...string) string {
	t.Helper()
	var out, problem strings.Builder
	c := b.Command(args...)
	c.Stdout, c.Stderr = &out, &problem
	if err := c.Run(); err != nil {
		t.Fatalf("coffer %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), problem.String())
	}
	return out.String() + problem.String()
}

var leadsTo = regexp.MustCompile(`127\.0\.0\.1:([0-9]+) leads to port`)

// chosen is the address that coffer says it chose.
func chosen(t *testing.T, said string) string {
	t.Helper()
	m := leadsTo.FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("no port was chosen: %s", said)
	}
	return "127.0.0.1:" + m[1]
}

// served starts a sandbox in which a peer listens on port 3000, and returns where it
// is reached. More flags come before the command.
func served(t *testing.T, b *testbed.Bed, name string, flags []string, how ...string) (address string) {
	t.Helper()
	args := append([]string{"exec", "--create", "--name", name, "-p", ":3000", "-d"}, flags...)
	args = append(args, "--", "./peer", how[0], "tcp", "127.0.0.1:3000")
	address = chosen(t, must(t, b, append(args, how[1:]...)...))
	listens(t, b, name)
	return address
}

// listens waits until something listens on port 3000.
func listens(t *testing.T, b *testbed.Bed, name string) {
	t.Helper()
	eventually(t, func() error {
		if said := must(t, b, "show", name); !strings.Contains(said, "listening  ") {
			return fmt.Errorf("nothing listens: %s", said)
		}
		return nil
	})
}

// call is one connection, with an answer.
func call(network, address, words string) (string, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, words); err != nil {
		return "", err
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

func wantEcho(t *testing.T, network, address string) {
	t.Helper()
	if got, err := call(network, address, "hello"); err != nil || got != "you said: hello\n" {
		t.Errorf("%s: got %q, %v", address, got, err)
	}
}

// shown is a sandbox as show --json tells.
func shown(t *testing.T, b *testbed.Bed, name string) (d described) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, b, "show", "--json", name)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Much goes through a forward, whole, and a reader that stalls costs no memory.
func TestForwardBulk(t *testing.T) {
	const size, most = 200_000_000, 100 << 20
	withPeer(t, func(t *testing.T, b *testbed.Bed) {
		address := served(t, b, "s", nil, "pour", strconv.Itoa(size))
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		cmd := &exec.Cmd{Process: &os.Process{Pid: shown(t, b, "s").PID}}
		var before string
		still := 0
		eventually(t, func() error {
			now := fmt.Sprint(cpuTimes(b, cmd))
			if still++; now != before {
				still = 0
			}
			if before = now; still < 20 {
				return fmt.Errorf("still busy: %s", now)
			}
			return nil
		})
		for _, p := range coffers(b, cmd) {
			if rss := p.rss(); rss > most {
				t.Errorf("%s holds %d MB while its reader stalls", p.args, rss>>20)
			}
		}
		if n, err := io.Copy(io.Discard, c); err != nil || n != size-1 {
			t.Errorf("%d bytes came after the first (%v), want %d", n, err, size-1)
		}
	})
}

// The last answer of a program that ends with it arrives.
func TestForwardLastAnswer(t *testing.T) {
	withPeer(t, func(t *testing.T, b *testbed.Bed) {
		for range 10 {
			c := b.Command("run", "--name", "s", "-p", ":3000", "--", "./peer", "once", "tcp", "127.0.0.1:3000")
			problem, err := c.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, 200)
			n, _ := problem.Read(line)
			address := chosen(t, string(line[:n]))
			listens(t, b, "s")
			wantEcho(t, "tcp", address)
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A flood of connections fills one forward and nothing else, and when it is over all
// is as before.
func TestForwardFlood(t *testing.T) {
	withPeer(t, func(t *testing.T, b *testbed.Bed) {
		address := served(t, b, "s", nil, "serve")
		wantEcho(t, "tcp", address)
		var all []net.Conn
		for range 500 {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		if got := must(t, b, "exec", "-m", "s", "--", "echo", "alive"); got != "alive\n" {
			t.Errorf("a program in the flood said %q", got)
		}
		var d described
		eventually(t, func() error {
			if d = shown(t, b, "s"); len(d.Listening) != 1 { // the guest is not waited for for long
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
		if rss := (process{pid: d.PID}).rss(); rss == 0 || rss > 100<<20 {
			t.Errorf("the supervisor holds %d MB", rss>>20)
		}
		for _, c := range all {
			c.Close()
		}
		wantEcho(t, "tcp", address)
	})
}

// A supervisor that is killed leaves no port taken and no socket in the way.
func TestOpeningsAfterKill(t *testing.T) {
	withPeer(t, func(t *testing.T, b *testbed.Bed) {
		out := filepath.Join(b.Dir, "out.sock")
		address := served(t, b, "s", []string{"--socket-out", "/tmp/in.sock:" + out}, "serve")
		wantEcho(t, "tcp", address)
		kill := func(pid int) {
			t.Helper()
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			kill(shown(t, b, "s").PID)
			must(t, b, "exec", "-m", "s", "-d", "--", "./peer", "serve", "tcp", "127.0.0.1:3000")
			must(t, b, "exec", "-m", "s", "-d", "--", "./peer", "serve", "unix", "/tmp/in.sock")
			listens(t, b, "s")
			wantEcho(t, "tcp", address)
			eventually(t, func() error {
				got, err := call("unix", out, "hello")
				if err == nil && got != "you said: hello\n" {
					err = fmt.Errorf("got %q", got)
				}
				return err
			})
		}
		// A throw-away, which nobody starts again: the next command cleans up.
		kill(shown(t, b, "s").PID)
		must(t, b, "remove", "--force", "s")
		if _, err := os.Lstat(out); err == nil {
			t.Errorf("%s is still there", out)
		}
		c := b.Command("run", "--name", "brief", "--socket-out", "/tmp/in.sock:"+out, "--", "sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Not before it stands: what it starts holds its files until it is under way.
		eventually(t, func() error {
			if said, _ := b.Command("show", "brief").CombinedOutput(); !strings.Contains(string(said), "process ") {
				return fmt.Errorf("it does not run: %s", said)
			}
			return nil
		})
		kill(c.Process.Pid)
		c.Wait()
		if _, err := os.Lstat(out); err != nil {
			t.Fatalf("the control: a killed process cleans up: %v", err)
		}
		must(t, b, "list")
		if _, err := os.Lstat(out); err == nil {
			t.Errorf("%s is still there", out)
		}
		if entries, _ := filepath.Glob(filepath.Join(b.Dir, ".coffer-*")); len(entries) > 0 {
			t.Errorf("left: %v", entries)
		}
	})
}

// Sandboxes that do not answer keep no list from ending, nor others from being told.
func TestListWithHungSandboxes(t *testing.T) {
	withPeer(t, func(t *testing.T, b *testbed.Bed) {
		served(t, b, "well", nil, "serve")
		for _, name := range []string{"hung-supervisor", "hung-guest"} {
			must(t, b, "exec", "--create", "--name", name, "--", "true")
			eventually(t, func() error { // its program is seen to have ended
				if d := shown(t, b, name); d.State != "idle" {
					return fmt.Errorf("%s is %s", name, d.State)
				}
				return nil
			})
		}
		var stopped []int
		for _, p := range processes() {
			if strings.HasPrefix(p.args, "coffer-guest") && p.parent == shown(t, b, "hung-guest").PID {
				stopped = append(stopped, p.pid)
			}
		}
		stopped = append(stopped, shown(t, b, "hung-supervisor").PID)
		if len(stopped) != 2 {
			t.Fatalf("found %v", stopped)
		}
		for _, pid := range stopped {
			syscall.Kill(pid, syscall.SIGSTOP)
			defer syscall.Kill(pid, syscall.SIGCONT)
			// All of its threads: one that still runs may answer.
			eventually(t, func() error {
				threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
				for _, thread := range threads {
					if id, _ := strconv.Atoi(thread.Name()); err == nil && !testbed.Stopped(id) {
						err = fmt.Errorf("thread %d of %d still runs", id, pid)
					}
				}
				return err
			})
		}
		for range 2 {
			eventually(t, func() error {
				said := must(t, b, "list") // where the machine stands still, others answer late as well
				for _, want := range []string{` well +running .* [0-9]+:3000 `, ` hung-guest +idle .* - `, ` hung-supervisor +suspended `} {
					if !regexp.MustCompile(want).MatchString(said) {
						return fmt.Errorf("no %q in the list:\n%s", want, said)
					}
				}
				return nil
			})
		}
	})
}

// A flood of the socket that leads to the host holds up who floods.
func TestSocketInFlood(t *testing.T) {
	withPeer(t, func(t *testing.T, b *testbed.Bed) {
		path := filepath.Join(b.Dir, "in.sock")
		host := b.Program(filepath.Join(b.Work, "peer"), "serve", "unix", path)
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { host.Process.Kill(); host.Wait() }()
		eventually(t, func() error { _, err := os.Lstat(path); return err })
		must(t, b, "exec", "--create", "--name", "s", "--socket-in", path+":/run/s", "--", "./peer", "call", "unix", "/run/s", "hello")
		// A backlog of the kernel's is 4096 at most; less than that is accepted.
		flood := b.Command("exec", "-m", "s", "--", "./peer", "flood", "unix", "/run/s", "150")
		in, err := flood.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := flood.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := flood.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("flooded"))); err != nil {
			t.Fatal(err)
		}
		if got := must(t, b, "exec", "-m", "s", "--", "echo", "alive"); got != "alive\n" {
			t.Errorf("a program in the flood said %q", got)
		}
		in.Close()
		waitFor(t, flood)
		if got := must(t, b, "exec", "-m", "s", "--", "./peer", "call", "unix", "/run/s", "hello"); got != "you said: hello\n" {
			t.Errorf("after the flood: %q", got)
		}
	})
}
