package supervisor

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/sandbox"
	"golang.org/x/sys/unix"
)

// quietLink is a link of which nothing ever comes.
type quietLink struct {
	served chan struct{} // closed when somebody listens
	closed chan struct{}
	once   sync.Once
}

func (q *quietLink) Accept() (link.Flow, error) {
	close(q.served)
	<-q.closed
	return nil, net.ErrClosed
}
func (q *quietLink) ReadDatagram([]byte) (int, netip.AddrPort, netip.AddrPort, error) {
	<-q.closed
	return 0, netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed
}
func (q *quietLink) WriteDatagram([]byte, netip.AddrPort, netip.AddrPort) error { return nil }
func (q *quietLink) RefuseDatagram(netip.AddrPort, netip.AddrPort) error        { return nil }
func (q *quietLink) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// A jail that does not use its network leaves nothing behind, and one that does leaves a
// log. Both end when they are told to.
func TestJailed(t *testing.T) {
	for _, uses := range []bool{false, true} {
		dir := t.TempDir()
		store := filepath.Join(dir, "sandboxes")
		j := NewJailed(store, sandbox.Record{
			Network: sandbox.Network{Mode: "standard"}, Command: []string{"x"},
			Workspace: sandbox.Workspace{Path: dir, Mode: sandbox.WorkspaceDirect},
		})
		j.Tell = func(line string, _ bool) { t.Log(line) }
		l := &quietLink{served: make(chan struct{}), closed: make(chan struct{})}
		end, err := j.Connect(l)
		if err != nil {
			t.Fatal(err)
		}
		if uses {
			<-l.served // nobody uses it before
			j.add(audit.Event{Kind: audit.KindFlow, Host: "a.example", Verdict: "deny"})
		}
		ended := make(chan struct{})
		go func() { end(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
		found, _ := os.ReadDir(JailStore(store))
		if (len(found) > 0) != uses {
			t.Errorf("used: %v, and left: %v", uses, found)
		}
	}
}

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
