package main

import (
	"net"
	"os"
	"testing"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// A sandbox whose last program has just ended is idle, though it still counts the program when it
// is asked the first time.
func TestIdleInAMoment(t *testing.T) {
	store, err := sandbox.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Name: "done", Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	path, release, err := sb.Socket()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for execs := 1; ; execs = 0 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := wire.ReadRequest(c); err == nil {
				wire.WriteMessage(c, wire.Event{Status: &wire.Status{PID: os.Getpid(), Execs: execs}})
			}
			c.Close()
		}
	}()
	if !idle(sb) {
		t.Error("it is taken for busy")
	}
}
