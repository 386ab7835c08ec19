package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// On a kernel that sends no signal to a single thread by a descriptor, a process in the namespace
// does so, by numbers that count there.
func TestSignalOne(t *testing.T) {
	testbed.Children(t)
	c := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	c.SysProcAttr = testbed.Namespaces(t, unix.CLONE_NEWPID)
	c.SysProcAttr.Pdeathsig = unix.SIGKILL
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	var inside, child int
	if _, err := fmt.Fscan(out, &inside); err != nil {
		t.Fatal(err)
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid))
	if _, err := fmt.Sscan(string(children), &child); err != nil {
		t.Fatal(err)
	}
	enter := func(name string, flag uintptr) *door {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", c.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return &door{flag, int(f.Fd())}
	}
	l := &late{jail: &jail{say: os.Stderr}, kill: func() {}, first: c.Process.Pid, user: enter("user", unix.CLONE_NEWUSER), pids: enter("pid", unix.CLONE_NEWPID)}
	l.layout = &layout{}
	for _, tid := range []int{0, inside} {
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
			if err := l.signalOne(inside, tid, sig); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); halt.Here.Stopped(child) != (sig == unix.SIGSTOP); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("thread %d: nothing came of %v", tid, sig)
				}
			}
		}
	}
	if err := l.signalOne(999, 999, unix.SIGSTOP); err != nil {
		t.Errorf("about one that has ended: %v", err)
	}
}

// overheard starts a command whose standard error leads to what it returns, and is full already if
// that is wanted.
func overheard(t *testing.T, c *exec.Cmd, full bool) *os.File {
	t.Helper()
	r, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	defer theirs.Close()
	if full {
		size, err := unix.FcntlInt(theirs.Fd(), unix.F_GETPIPE_SZ, 0)
		if err == nil {
			_, err = theirs.Write(make([]byte, size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Stderr = theirs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// Why a program was ended is told also if nobody listens before it has.
func TestGiveUpHeard(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		fifo := filepath.Join(s.Work, "alive")
		if err := errors.Join(unix.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666)); err != nil {
			t.Fatal(err)
		}
		// The program has it open, and coffer has not.
		over := make(chan struct{})
		go func() {
			defer close(over)
			if f, err := os.Open(fifo); err == nil {
				io.Copy(io.Discard, f)
			}
		}()
		w := s.policy("perl", "-e", `open A, ">alive"; mkdir "flood"; for $i (1..20000) { open F, ">flood/.env.$i"; print F "x"; close F } sleep 1000`)
		w.Quiet = true
		c := s.command(t, w)
		r := overheard(t, c, true)
		select {
		case <-over:
		case <-time.After(2 * time.Minute): // it may say why
		}
		r.SetReadDeadline(time.Now().Add(time.Minute))
		said, err := io.ReadAll(r)
		_ = c.Process.Kill()
		_ = c.Wait()
		if err != nil || !strings.Contains(string(said), "the program is ended, because") {
			t.Errorf("it is not said, but %q, %v", strings.Trim(string(said), "\x00"), err)
		}
	})
}

// A program is ended also if it has seen to it that nobody can be told.
func TestGiveUpUnheard(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		w := s.policy("perl", "-e", `$SIG{ALRM} = sub { exit 0 }; alarm 300; mkdir "flood";
if (!fork) { alarm 300; syswrite STDERR, "x" x 1e6; exit 0 }
select undef, undef, undef, 0.2;
for $i (1..20000) { open F, ">flood/.env.$i"; print F "x"; close F } sleep 300`)
		c := s.command(t, w)
		overheard(t, c, false)
		_ = c.Wait()
		if c.ProcessState.ExitCode() != 137 {
			t.Errorf("%v", c.ProcessState)
		}
	})
}

// Who does not want to wait until it is said need not: a signal that comes when the program has
// ended ends that, and reaches nobody who has got its number since.
func TestHeardNoMore(t *testing.T) {
	defer func(was time.Duration) { lastWords = was }(lastWords)
	lastWords = time.Hour
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Process.Kill()
	r, say, err := os.Pipe() // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer say.Close()
	defer r.Close()
	full := say.SetWriteDeadline(time.Now().Add(time.Second))
	for full == nil {
		_, full = say.Write(make([]byte, 4096))
	}
	_ = say.SetWriteDeadline(time.Time{})
	l := &late{jail: &jail{say: say}, stop: func() {}, enough: make(chan struct{}, 1)}
	l.begun.Store(true)
	l.tell("the program is ended")
	l.end()
	signals := make(chan os.Signal)
	go handOn(signals, other.Process.Pid, new(atomic.Bool), l)
	signals <- unix.SIGCONT
	signals <- unix.SIGTERM
	l.heard()
	close(signals)
	_ = other.Process.Signal(unix.SIGINT)
	if err = other.Wait(); err == nil || err.Error() != "signal: interrupt" {
		t.Errorf("another process was ended: %v", err)
	}
}
