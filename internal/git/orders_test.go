package git

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWriteRefs: a ref that is set twice moves once, from where it was read.
func TestWriteRefs(t *testing.T) {
	b, git := hostRepository(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.Common), "f"), []byte("f\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	ids := []string{"", git("commit-tree", "-m", "one", git("write-tree")), git("commit-tree", "-m", "two", git("write-tree")), git("commit-tree", "-m", "three", git("write-tree"))}
	for _, name := range []string{"a", "b", "c", "d"} {
		git("update-ref", b.own()+name, ids[1])
	}
	s, err := b.ownRefs().read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []struct {
		ref string
		id  int
	}{
		{"a", 2}, {"a", 3}, // twice
		{"b", 2}, {"b", 1}, // and back
		{"c", 2}, {"c", 0}, // away
		{"d", 0}, {"d", 2}, // away and to somewhere
		{"e", 1}, {"e", 2}, // a new one
		{"f", 1}, {"f", 0}, // which is not needed after all
	} {
		s.set(b.own()+move.ref, ids[move.id])
	}
	if err := s.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": ids[3], "b": ids[1], "d": ids[2], "e": ids[2]}
	list, err := b.refs().list(t.Context(), b.own())
	got := byName(list)
	if err != nil || len(got) != len(want) {
		t.Errorf("refs %v, %v", got, err)
	}
	for name, id := range want {
		if got[b.own()+name].ID != id {
			t.Errorf("%s is at %s, want %s", name, got[b.own()+name].ID, id)
		}
	}
}
