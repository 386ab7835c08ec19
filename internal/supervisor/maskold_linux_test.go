package supervisor

import (
	"slices"
	"testing"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/mask"
)

// TestOldNames: in a tree that is seen in two places, each has the old names of a file behind its
// own one, so that what the guest says of both is understood.
func TestOldNames(t *testing.T) {
	dir := t.TempDir()
	tree, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	m := &masks{shown: []*shown{{tree: tree, at: "/a"}, {tree: tree, at: "/b"}}}
	places := m.inside(dir, false, mask.Found{Path: "new/.env"}, mask.Found{Path: "old/.env", Stale: true})
	var got []string
	for _, c := range places {
		got = append(got, string(c.Path))
	}
	if !slices.Equal(got, []string{"/a/new/.env", "/a/old/.env", "/b/new/.env", "/b/old/.env"}) {
		t.Fatal(got)
	}
	for _, test := range []struct {
		said []string
		want bool
	}{
		{[]string{wire.OldName, "", "", wire.NotThere}, true},
		{[]string{wire.OldName, wire.NotThere, "", ""}, false}, // the other one's names do not help
	} {
		if coveredBefore(places[1:], test.said[1:]) != test.want {
			t.Errorf("%q: want %v", test.said, test.want)
		}
	}
}
