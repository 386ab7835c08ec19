package terminal

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// open returns the two ends of a terminal: what the user's terminal program
// holds, and what we do.
func open(t *testing.T) (user, ours *os.File) {
	t.Helper()
	user, ours, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = user.Close()
		_ = ours.Close()
	})
	return user, ours
}

func settings(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	got, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		t.Fatal(err)
	}
	return *got
}

func TestRaw(t *testing.T) {
	_, ours := open(t)
	before := settings(t, ours)
	state, err := Raw(int(ours.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	raw := settings(t, ours)
	if raw.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 || raw.Oflag&unix.OPOST != 0 {
		t.Errorf("not raw: %+v", raw)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := state.Restore(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if settings(t, ours) != before {
		t.Errorf("restored to %+v, was %+v", settings(t, ours), before)
	}
	// A later change by someone else is not touched.
	if _, err := Raw(int(ours.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := state.Restore(); err != nil {
		t.Fatal(err)
	}
	if settings(t, ours) != raw {
		t.Error("restored a second time")
	}
}

func TestNotATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if IsTerminal(int(r.Fd())) {
		t.Error("a pipe is a terminal")
	}
	if s, err := Raw(int(r.Fd())); err == nil || s.Restore() != nil {
		t.Errorf("Raw: %v, %v", s, err)
	}
	if _, _, err := Size(int(r.Fd())); err == nil {
		t.Error("a pipe has a size")
	}
	if _, err := w.WriteString("kept"); err != nil {
		t.Fatal(err)
	}
	Drain(r, w, true)
	if !pending(r) {
		t.Error("Drain took what was in a pipe")
	}
}

func TestSize(t *testing.T) {
	user, ours := open(t)
	if !IsTerminal(int(ours.Fd())) {
		t.Fatal("a terminal is none")
	}
	for _, want := range [][2]int{{0, 0}, {120, 40}} {
		if err := pty.Setsize(user, &pty.Winsize{Cols: uint16(want[0]), Rows: uint16(want[1])}); err != nil {
			t.Fatal(err)
		}
		columns, rows, err := Size(int(ours.Fd()))
		if err != nil || columns != want[0] || rows != want[1] {
			t.Errorf("Size() = %d, %d, %v, want %v", columns, rows, err, want)
		}
	}
}

// pending reports whether there is something to read right now.
func pending(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// rawPair returns a terminal in raw mode.
func rawPair(t *testing.T) (user, ours *os.File) {
	t.Helper()
	user, ours = open(t)
	if _, err := Raw(int(ours.Fd())); err != nil {
		t.Fatal(err)
	}
	return user, ours
}

// answer plays a terminal: it waits for the question and then sends.
func answer(t *testing.T, user *os.File, send ...string) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		var seen []byte
		buf := make([]byte, 64)
		for !bytes.Contains(seen, []byte(sentinel)) {
			n, err := user.Read(buf)
			if err != nil {
				t.Error(err)
				return
			}
			seen = append(seen, buf[:n]...)
		}
		for _, s := range send {
			if _, err := user.WriteString(s); err != nil {
				t.Error(err)
			}
		}
	})
	return done.Wait
}

// endless is for terminals that answer: a slow machine must not make them late.
var endless = patience{silence: time.Minute, settle: time.Second, limit: time.Minute}

func TestDrain(t *testing.T) {
	brief := patience{silence: time.Second, limit: time.Minute}
	// What comes behind the first answer may be late as well.
	settled := patience{silence: time.Minute, settle: 10 * time.Second, limit: time.Minute}
	for _, c := range []struct {
		name string
		wait patience
		send []string
	}{
		{"at once", endless, []string{"\x1b[12;40R\x1b]11;rgb:0000/0000/0000\x1b\\" + sentinelReply}},
		{"in pieces", endless, []string{"\x1b[12;40R", "\x1b[", "0", "n"}},
		{"another answer like ours", settled, []string{sentinelReply, "\x1b[1;1R", sentinelReply}},
		{"another answer and Ctrl-C", endless, []string{"\x1b[12;40R", "\x03"}},
		{"no answer", brief, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			user, ours := rawPair(t)
			wait := answer(t, user, c.send...)
			c.wait.drain(ours, ours, true)
			wait()
			if pending(ours) {
				t.Error("something is left to read")
			}
			if _, err := user.WriteString("x"); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 16)
			if n, err := ours.Read(buf); err != nil || string(buf[:n]) != "x" {
				t.Errorf("then reads %q, %v", buf[:n], err)
			}
		})
	}
}

func TestDrainWithoutQuestion(t *testing.T) {
	user, ours := rawPair(t)
	if _, err := user.WriteString("\x1b[<0;1;1M"); err != nil {
		t.Fatal(err)
	}
	Drain(ours, ours, false)
	if pending(ours) {
		t.Error("something is left to read")
	}
	if pending(user) {
		t.Error("asked, though not told to")
	}
}

// TestDrainGone: the window was closed.
func TestDrainGone(t *testing.T) {
	user, ours := rawPair(t)
	if err := user.Close(); err != nil {
		t.Fatal(err)
	}
	Drain(ours, ours, true)
}

// TestDrainStopped: nobody reads what we write.
func TestDrainStopped(t *testing.T) {
	_, ours := rawPair(t)
	fd := int(ours.Fd()) // once: Fd switches to blocking mode
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4096, 1} {
		for {
			if _, err := unix.Write(fd, make([]byte, size)); err != nil {
				break
			}
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	Drain(ours, ours, true)
}

// TestDrainFlood: a terminal that never stops sending is not waited for.
func TestDrainFlood(t *testing.T) {
	user, ours := rawPair(t)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = user.WriteString("\x1b[1;1R")
			}
		}
	})
	patience{silence: time.Minute, limit: time.Second}.drain(ours, ours, true)
	close(stop)
	// The flood may be blocked on a full input; empty it.
	for range 4 {
		_ = flushInput(int(ours.Fd()))
	}
	_ = ours.Close()
	done.Wait()
}
