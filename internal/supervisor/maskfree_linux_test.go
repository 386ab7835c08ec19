package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
)

// TestFreed: of what is hidden and gone, names that a line hides are freed with a mark, and others
// without one, if it is heard of when they come back.
func TestFreed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".github", "node_modules"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".env.there"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tree, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	one := &shown{tree: tree, at: "/in", upper: "/upper"}
	m := &masks{shown: []*shown{one}, hidden: map[string]Hidden{}}
	for path, isDir := range map[string]bool{
		".env": false, ".env.there": false, ".aws": true, ".github/.env": false, // by lines
		"plain": false, ".github/plain": false, "behind": true, "auth.json": false, // not by lines
		"node_modules/plain": false, "gone/.env": false, // and these stay
	} {
		m.hidden[filepath.Join(dir, path)] = Hidden{Dir: isDir}
	}
	marked, clean := m.free(one)
	var got [2][]string
	for _, c := range marked {
		if !c.Free || c.Clean {
			t.Errorf("%+v", c)
		}
		got[0] = append(got[0], string(c.Path))
	}
	for _, f := range clean {
		got[1] = append(got[1], f.Path)
	}
	slices.Sort(got[0])
	slices.Sort(got[1])
	if want := []string{"/in/.aws", "/in/.env", "/in/.github/.env"}; !slices.Equal(got[0], want) {
		t.Errorf("%q, want %q", got[0], want)
	}
	if want := []string{".github/plain", "auth.json", "behind", "plain"}; !slices.Equal(got[1], want) {
		t.Errorf("%q, want %q", got[1], want)
	}
	if len(m.hidden) != 1 {
		t.Errorf("%v", m.hidden)
	}
}
