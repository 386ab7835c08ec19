package main

import (
	"testing"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// Who watches a program does not take it for ended because its sandbox does not answer.
func TestWatchUnanswered(t *testing.T) {
	store, err := sandbox.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Name: "busy", Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}})
	if err != nil {
		t.Fatal(err)
	}
	if !hasProgram(sb) {
		t.Error("it runs, nobody answers, and no program is thought to run")
	}
	lock.Release()
	if hasProgram(sb) {
		t.Error("it has stopped, and a program is thought to run")
	}
}
