package gitbridge

import (
	"slices"
	"strings"
	"testing"
)

func TestVanished(t *testing.T) {
	a, b, c, d := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40), strings.Repeat("d", 40)
	before := packed([]ref{{"refs/heads/main", a, ""}, {"refs/heads/x", b, ""}, {"refs/tags/v1", c, d}, {"refs/heads/y", b, ""}})
	for _, c := range []struct {
		now  []ref
		want []string
	}{
		{[]ref{{"refs/heads/main", a, ""}, {"refs/heads/x", b, ""}, {"refs/tags/v1", c, d}}, nil},
		{[]ref{{"refs/heads/main", a, ""}, {"refs/tags/v1", c, d}}, []string{b}},
		{[]ref{{"refs/heads/other", b, ""}}, []string{a, c}},
		{nil, []string{a, b, c}},
	} {
		got := vanished(before, packed(c.now))
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.now, got, c.want)
		}
	}
	if got := vanished("", before); got != nil {
		t.Errorf("of nothing, %v", got)
	}
}
