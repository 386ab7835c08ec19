package wire

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/confine"
	"golang.org/x/sys/unix"
)

// Who is in a jail is not heard, by whatever supervisor; who is not is. Nor can he take off
// what he is known by.
func TestTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, jailed := range []string{"", "yes"} {
		c := exec.Command(os.Args[0], "-test.run=^TestTrusted$")
		c.Env = append(os.Environ(), "COFFER_TEST_CALL="+path, "COFFER_TEST_JAILED="+jailed)
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := trusted(conn.(*net.UnixConn)); (err != nil) != (jailed != "") {
			t.Errorf("jailed: %q: %v", jailed, err)
		}
		conn.Close()
		_ = c.Wait()
	}
}

// Who has ended is nobody, though somebody else holds the connection.
func TestTrustedIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := exec.Command(os.Args[0], "-test.run=^TestTrusted$")
	c.Env = append(os.Environ(), "COFFER_TEST_CALL="+path)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = c.Process.Kill()
	_ = c.Wait()
	if err := trusted(conn.(*net.UnixConn)); err == nil {
		t.Error("it is trusted")
	}
}

// init is who calls in these tests.
func init() {
	path := os.Getenv("COFFER_TEST_CALL")
	if path == "" {
		return
	}
	if os.Getenv("COFFER_TEST_JAILED") != "" {
		if confine.Mark() != nil || confine.NoNewPrivs() != nil || confine.DropCapabilities() != nil {
			os.Exit(1)
		}
		_ = unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_, _ = c.Read(make([]byte, 1)) // until it is hung up
	}
	os.Exit(0)
}
