package supervisor

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// patience bounds every wait. Whoever uses it up has found a hang.
const patience = time.Minute

// newSupervisor is one with a record, and a guest that is whatever the test makes it.
func newSupervisor(t *testing.T, rec sandbox.Record) (*Supervisor, *wire.Session) {
	t.Helper()
	// Not t.TempDir: its path is too long for a socket.
	dir, err := os.MkdirTemp("", "coffer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := sandbox.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Workspace.Mode == "" {
		rec.Workspace.Mode = sandbox.WorkspaceNone
	}
	sb, lock, err := store.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Release)
	s := &Supervisor{Sandbox: sb, rested: make(chan struct{}), idleTime: time.Hour}
	a, b := net.Pipe()
	if s.session, err = wire.NewClient(a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.session.Close() })
	guest, err := wire.NewServer(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	return s, guest
}

// eventually waits for something to become true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so: %s", what)
		}
	}
}

// A connection from outside keeps a sandbox from being idle.
func TestVisitorsAndIdleTime(t *testing.T) {
	s, _ := newSupervisor(t, sandbox.Record{})
	s.idleTime = time.Nanosecond
	s.visitors(1)
	s.enter()
	s.leave()
	eventually(t, "the idle time is over", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.late
	})
	select {
	case <-s.rested:
		t.Fatal("it stopped in the middle of a connection")
	default:
	}
	s.visitors(-1)
	select {
	case <-s.rested:
	case <-time.After(patience):
		t.Error("it does not stop")
	}
}
