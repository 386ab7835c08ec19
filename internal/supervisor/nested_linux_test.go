package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// Who makes and removes repositories all day fills neither the memory nor the screen.
func TestNestedForEver(t *testing.T) {
	s := &Supervisor{}
	one := &shown{tree: &mask.Tree{Root: "/work"}, stays: true}
	told := 0
	for i := range maxKnown + 10 {
		s.appeared(one, mask.Found{Path: "x/.git", Which: mask.Which{Ino: uint64(i + 1)}}, func(string) { told++ })
	}
	if n, made := len(s.nested.known), len(s.nested.made["/work"]); n != maxKnown || made != maxMade || told != mostNested+1 {
		t.Errorf("%d are known, %d are to be remembered, %d lines were said", n, made, told)
	}
}

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
