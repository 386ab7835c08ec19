package ui

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// What is typed while work goes on ahead of a program is not shown, and is there for the
// program; the terminal is as it was afterwards. Without signals being heard, nothing is
// changed at it.
func TestTyped(t *testing.T) {
	for _, quiet := range []string{"", "yes"} {
		user, ours, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		was := settings(t, ours)
		c := exec.Command(os.Args[0], "-test.run=^TestTyped$")
		c.Env = append(os.Environ(), "COFFER_TEST_BUSY=yes", "COFFER_TEST_QUIET="+quiet)
		c.Stdin, c.Stderr = ours, ours
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if l, err := lines.ReadString('\n'); l != "working\n" {
			t.Fatalf("%q, %v", l, err)
		}
		keys := "typed\n"
		if quiet != "" {
			keys = "typed\x1a\x1c\n" // Ctrl-Z and Ctrl-\ are keys, too
		}
		if _, err := user.WriteString(keys); err != nil {
			t.Fatal(err)
		}
		if l, err := lines.ReadString('\n'); l != fmt.Sprintf("%q\n", keys) {
			t.Errorf("quiet %q: the program has %s, %v", quiet, l, err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("quiet %q: %v", quiet, err)
		}
		if now := settings(t, ours); *now != *was {
			t.Errorf("quiet %q: the terminal was %+v and is %+v", quiet, was, now)
		}
		ours.Close()
		screen := string(all(user))
		if strings.Contains(screen, "typed") != (quiet == "") {
			t.Errorf("quiet %q: shown is %q", quiet, screen)
		}
		user.Close()
	}
}

func settings(t *testing.T, f *os.File) *unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// init is who works ahead in that test.
func init() {
	if os.Getenv("COFFER_TEST_BUSY") == "" {
		return
	}
	l := begin("working", os.Stderr)
	if ctx := context.Background(); os.Getenv("COFFER_TEST_QUIET") != "" {
		l.mute = HearsSignals(ctx).Value(heard{}) != nil
	}
	l.tick()
	fmt.Println("working")
	for n := 0; n == 0; time.Sleep(time.Millisecond) { // until the terminal has the line
		n, _ = unix.IoctlGetInt(0, unix.TIOCINQ)
	}
	l.done()
	raw, err := terminal.Raw(0)
	if err != nil {
		os.Exit(1)
	}
	var typed [100]byte
	n, _ := os.Stdin.Read(typed[:])
	_ = raw.Restore()
	fmt.Printf("%q\n", typed[:n])
	os.Exit(0)
}
