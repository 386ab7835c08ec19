package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What the watch has seen is remembered, though there was no time to look through all in the end.
func TestNestedRemembered(t *testing.T) {
	dir := t.TempDir()
	for _, made := range []string{"seen/.git", "last/.git"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	one := &shown{tree: tree, at: dir, stays: true}
	s, _ := newSupervisor(t, sandbox.Record{})
	s.masks.life, s.masks.shown = context.Background(), []*shown{one}
	all, err := tree.Repositories(context.Background())
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, f := range all {
		if f.Path == "seen/.git" {
			s.repositories(one)(f)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	s.lookForNested(ctx)
	if made := s.remembered(one).Made; len(made) != 1 || made[0].Path != "seen/.git" {
		t.Errorf("remembered: %+v", made)
	}
}

// Who makes repositories all the time does not fill the memory of the host.
func TestManyRepositories(t *testing.T) {
	s := &Supervisor{}
	one := &shown{tree: &mask.Tree{Root: "/work"}}
	told := 0
	for i := range uint64(3 * maxMade) {
		s.appeared(one, mask.Found{Path: "sub/.git", Which: mask.Which{Ino: i + 1, Born: 1}}, func(string) { told++ })
	}
	if n, m := len(s.nested.known), len(s.nested.made["/work"]); n != maxMade || m != maxMade || told != mostNested+1 {
		t.Errorf("%d are known, %d noted, and %d told of", n, m, told)
	}
	if last := s.nested.made["/work"][maxMade-1]; !s.nested.known[last.Which] || last.Ino != 3*maxMade {
		t.Errorf("the latest is %+v", last)
	}
}

// A number alone does not say whose a repository is.
func TestTheirRepositories(t *testing.T) {
	old, ours := mask.Which{Ino: 1}, mask.Which{Ino: 2, Born: 1}
	theirs := remembered{Made: []repository{{"a/.git", old}, {"b/.git", ours}}}.theirs()
	if theirs[old] || !theirs[ours] {
		t.Errorf("%v", theirs)
	}
}

// Who makes a tree too large for the last look does not keep the user from hearing of it.
func TestLastLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub/.git"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	s := &Supervisor{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.lookLast(ctx, &shown{tree: tree, stays: true})
	if !slices.ContainsFunc(s.LastWords(), func(line string) bool { return strings.Contains(line, "too large to look through") }) {
		t.Errorf("%q", s.LastWords())
	}
	s = &Supervisor{}
	s.lookLast(t.Context(), &shown{tree: tree, stays: true})
	if last := s.LastWords(); len(last) != 1 || !strings.Contains(last[0], "made in "+dir+"/sub;") {
		t.Errorf("%q", last)
	}
}

// What is told once is heard, by who listens or who does next; and if nobody does, as a last word.
func TestToldOnce(t *testing.T) {
	s, _ := newSupervisor(t, sandbox.Record{})
	s.notices.once("early")
	lines, leave := s.notices.listen(time.Now().Add(time.Hour)) // whatever else he has missed
	s.notices.once("now")
	leave()
	s.notices.once("late")
	if last := s.LastWords(); !slices.Equal(last, []string{"late"}) {
		t.Errorf("last words: %q", last)
	}
	if len(lines) != 2 || <-lines != "early" || <-lines != "now" {
		t.Error("who listens is not told what is for him, or more")
	}
	lines, leave = s.notices.listen(time.Now().Add(time.Hour))
	if len(lines) != 1 || len(s.LastWords()) != 0 {
		t.Errorf("the next one has %d lines, and %d are left", len(lines), len(s.LastWords()))
	}
	for range 100 { // a program has its pushes refused, and nobody reads that
		s.notices.tell("noise")
	}
	s.notices.once("to who has too much to read")
	if leave(); len(s.LastWords()) != 1 {
		t.Error("a program makes so much noise that what is told once is lost")
	}
}

// What is to be remembered as told waits for somebody to tell it to.
func TestToldToSomebody(t *testing.T) {
	s, _ := newSupervisor(t, sandbox.Record{})
	s.masks.life, s.masks.stop = context.WithCancel(t.Context())
	told := make(chan bool)
	go func() { told <- s.tellSomebody("at last") }()
	lines, leave := s.notices.listen(time.Time{})
	if !<-told || len(lines) != 1 {
		t.Errorf("%d lines came", len(lines))
	}
	leave()
	s.masks.stop()
	if s.tellSomebody("too late") {
		t.Error("nobody can have heard it")
	}
}
