package supervisor

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// patience bounds every wait. Whoever uses it up has found a hang.
const patience = time.Minute

// testSupervisor is one with a record, and a guest that is whatever the test makes it.
func testSupervisor(t *testing.T, rec sandbox.Record) (*Supervisor, *wire.Session) {
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
	s := newSupervisor(sb)
	s.activity.idleTime = time.Hour
	if s.audit, err = sb.OpenLog(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.audit.Close() })
	s.disks = disks{sb: sb, notices: &s.notices, log: s.audit}
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
	a := newActivity(time.Nanosecond)
	a.visit(1)
	a.enter()
	a.leave()
	select {
	case <-a.rested:
		t.Fatal("it stopped in the middle of a connection")
	case <-time.After(10 * time.Millisecond):
	}
	a.visit(-1)
	select {
	case <-a.rested:
	case <-time.After(patience):
		t.Error("it does not stop")
	}
}

// A sandbox waits longer for its first program, and for the one that it is set up for.
func TestFirstUse(t *testing.T) {
	a := newActivity(time.Nanosecond)
	a.settingUp = func() bool { return true }
	a.start()
	a.visit(1)
	a.visit(-1)
	a.enter()
	a.leave()
	select {
	case <-a.rested:
		t.Error("it did not wait for its program")
	case <-time.After(10 * time.Millisecond):
	}
	a.settingUp = func() bool { return false }
	a.enter()
	a.leave()
	<-a.rested
}

// What is told once is heard by whoever listens or the next one who does; and if nobody does, it is
// a last word.
func TestToldOnce(t *testing.T) {
	var n notices
	heard := map[string]bool{}
	once := func(line string) { n.once(line, func() { heard[line] = true }) }
	once("early")
	lines, leave := n.listen(time.Now().Add(time.Hour))
	once("now")
	if !heard["early"] || !heard["now"] || len(lines) != 2 || <-lines != "early" || <-lines != "now" {
		t.Error("a listener is not told what is for it, or more")
	}
	leave()
	leave()
	once("late")
	if heard["late"] {
		t.Error("nobody can have heard it")
	}
	if last := n.left(); !slices.Equal(last, []string{"late"}) || !heard["late"] {
		t.Errorf("last words: %q", last)
	}
	_, leave = n.listen(time.Now().Add(time.Hour))
	for range 100 { // a program has its pushes refused, and nobody reads that
		n.tell("noise")
	}
	once("to who has too much to read")
	if leave(); len(n.left()) != 1 {
		t.Error("a program makes so much noise that what is told once is lost")
	}
}
