package config

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
)

// shownBy lists the negated lines that are in force, as they go into a record.
func shownBy(l *Loaded) (list []string) {
	if l == nil {
		return nil
	}
	for _, m := range l.Masks().Rules {
		if strings.HasPrefix(m.Line, "!") {
			list = append(list, m.From+" "+m.Line)
		}
	}
	return list
}

// TestNestedTrust: a file further down shows what is hidden once the user has agreed to its
// content, and no longer than it says the same.
func TestNestedTrust(t *testing.T) {
	w := newWorld(t)
	w.write("sub/"+mask.FileName, "*.x\n!.env\n")
	w.write("sub/deep/"+mask.FileName, "!a.x\n")
	w.write("other/"+mask.FileName, "secret\n")
	w.write("hidden/.aws/"+mask.FileName, "!x.key\n")
	w.write("hidden/"+mask.FileName, "!.aws/\n")
	if l := w.load(); l != nil {
		t.Fatalf("files further down are taken without a yes: %v", shownBy(l))
	}
	l, err := w.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	files, err := l.FindNested(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"masks: programs can see files that are hidden otherwise, by the line !.aws/ of hidden/.sandboxignore:1",
		"masks: programs can see files that are hidden otherwise, by the line !.env of sub/.sandboxignore:2",
		"masks: programs can see files that are hidden otherwise, by the line !x.key of hidden/.aws/.sandboxignore:1",
		"masks: programs can see files that are hidden otherwise, by the line !a.x of sub/deep/.sandboxignore:1",
	}
	if got := Sentences(files); !slices.Equal(got, want) {
		t.Errorf("asked for\n%s", strings.Join(got, "\n"))
	}
	store, err := w.TrustStore()
	if err != nil {
		t.Fatal(err)
	}
	if store.HasNested(l.Repository, files) {
		t.Error("it is agreed to already")
	}
	if err := store.AddNested(l.Repository, files); err != nil {
		t.Fatal(err)
	}
	if !store.HasNested(l.Repository, files) {
		t.Error("the answer is lost")
	}
	lines := []string{"hidden/.sandboxignore:1 !.aws/", "sub/.sandboxignore:2 !.env", "hidden/.aws/.sandboxignore:1 !x.key", "sub/deep/.sandboxignore:1 !a.x"}
	l = w.load()
	if got := shownBy(l); !slices.Equal(got, lines) {
		t.Errorf("in force are %q", got)
	}
	if widens, err := l.Widens(usual); err != nil || len(widens) > 0 {
		t.Errorf("they are asked about again: %q, %v", widens, err)
	}

	// Changed, gone, or a link: it does not count any more. The others do.
	w.write("sub/"+mask.FileName, "*.x\n!.env\n!*.key\n")
	l = w.load()
	if got := shownBy(l); !slices.Equal(got, slices.Delete(slices.Clone(lines), 1, 2)) || !slices.Equal(l.Stale(), []string{"sub/.sandboxignore"}) {
		t.Errorf("after a change %q are in force, changed are %q", got, l.Stale())
	}
	w.write("copy", "*.x\n!.env\n")
	if err := os.Remove(filepath.Join(w.Dir, "sub", mask.FileName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../copy", filepath.Join(w.Dir, "sub", mask.FileName)); err != nil {
		t.Fatal(err)
	}
	if got := shownBy(w.load()); slices.Contains(got, lines[1]) {
		t.Error("a link counts")
	}
	if err := os.RemoveAll(filepath.Join(w.Dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if l = w.load(); len(l.Stale()) > 0 || len(shownBy(l)) != 2 {
		t.Errorf("after the end of it %q are in force, changed are %q", shownBy(l), l.Stale())
	}

	// The same content in another place is another question; so is it after a revoke.
	w.write("elsewhere/"+mask.FileName, "*.x\n!.env\n")
	if got := shownBy(w.load()); len(got) != 2 {
		t.Errorf("in force are %q", got)
	}
	if n, err := store.Revoke(l.Repository); n != 1 || err != nil {
		t.Errorf("took back %d, %v", n, err)
	}
	if l := w.load(); l != nil {
		t.Errorf("after a revoke, in force are %q", shownBy(l))
	}
}

// TestNestedTrustInWorkspace: answers that programs in the sandbox could have written are
// none.
func TestNestedTrustInWorkspace(t *testing.T) {
	w := newWorld(t)
	w.write("sub/"+mask.FileName, "!.env\n")
	l, err := w.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	files, err := l.FindNested(context.Background())
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	outside := w.Trust
	w.Trust = filepath.Join(w.Dir, "state", "trust")
	if err := (Trust{w.Trust}).AddNested(l.Repository, files); err != nil {
		t.Fatal(err)
	}
	if l := w.load(); l != nil {
		t.Errorf("in force are %q", shownBy(l))
	}
	if err := os.MkdirAll(filepath.Dir(outside), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.Dir, "state", "trust"), outside); err != nil {
		t.Fatal(err)
	}
	w.Trust = outside
	if got := shownBy(w.load()); len(got) != 1 {
		t.Errorf("the same answer elsewhere has %q in force", got)
	}
}
