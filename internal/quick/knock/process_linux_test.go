package knock

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// How a process ends here that has knocked, and has more to do; and one that has not.
const notOver, notKnocked = 77, 78

// TestMain is also what comes after the knock, in a process that plays coffer.
func TestMain(m *testing.M) {
	if Made != nil {
		fmt.Fprintf(os.Stderr, "%q", Made.Said)
		os.Exit(notOver)
	}
	if os.Args[0] == "coffer" {
		os.Exit(notKnocked)
	}
	os.Exit(m.Run())
}

// TestProcess has a process knock at a supervisor that answers at once: what is over is
// printed, and the process is; anything else is left to others as it was said.
func TestProcess(t *testing.T) {
	data, err := os.MkdirTemp("", "k") // a short name, as a socket's address must have
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	store, err := sandbox.Open(filepath.Join(data, "coffer/sandboxes"))
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Name: "box", Workspace: sandbox.Workspace{Path: "/here", Mode: sandbox.WorkspaceDirect}})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	socket, err := net.Listen("unix", filepath.Join(sb.Dir(), "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	answer, asked := make(chan string, 1), make(chan Request, 1)
	go supervise(socket, answer, asked)

	knock := func(says string, to *os.File) (code int, out, errs string) {
		t.Helper()
		c := exec.Command(os.Args[0])
		c.Args = []string{"coffer", "exec", "-m", "box", "--", "prog", "arg"}
		c.Env = []string{"HOME=" + data, "XDG_DATA_HOME=" + data, "A=b"}
		c.Dir = data
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		if to != nil {
			c.Stdout = to
		}
		answer <- says
		var exit *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if c.ProcessState.ExitCode() == notKnocked {
			t.Fatal("it did not knock")
		}
		r := <-asked
		if !r.NoInput || len(r.Argv) != 2 || string(r.Argv[1]) != "arg" || strings.Join(r.Env, " ") != strings.Join(c.Env, " ") {
			t.Errorf("it asked for %+v", r)
		}
		return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
	}

	well := frame('t', "") + frame('s', "") + frame(1, "out\n") + frame(2, "err\n") + frame('x', "\x00\x00")
	code, out, errs := notOver, "", ""
	for n := 0; n < 200 && code == notOver; n++ { // it waits for no more than a moment
		code, out, errs = knock(well, nil)
	}
	if code != 0 || out != "out\n" || errs != "err\n" {
		t.Errorf("a program that is over: %d, %q, %q", code, out, errs)
	}
	for _, says := range []string{frame('s', "") + frame('x', "\x03\x00"), frame('s', "") + frame(1, "out\n"), ""} {
		if code, out, errs := knock(says, nil); code != notOver || errs != fmt.Sprintf("%q", says) && errs != `""` || out != "" {
			t.Errorf("%q: %d, %q, %q", says, code, out, errs)
		}
	}
	// What cannot be written is left over, and nothing of it is written twice.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	want := fmt.Sprintf("%q", frame('s', "")+frame(1, "out\n")+frame(2, "err\n")+frame('x', "\x00\x00"))
	for n := 0; n < 200 && errs != want; n++ {
		code, _, errs = knock(well, full)
	}
	if code != notOver || errs != want {
		t.Errorf("a full disk: %d, %s", code, errs)
	}
}

// supervise answers each request with what it is to say.
func supervise(socket net.Listener, answer <-chan string, asked chan<- Request) {
	for {
		c, err := socket.Accept()
		if err != nil {
			return
		}
		packed, _ := wire.ReadRequest(c)
		_, _ = c.Write([]byte(<-answer))
		r, _ := Open(packed)
		c.Close()
		asked <- r
	}
}
