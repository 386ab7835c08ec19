package ui

import "testing"

func TestFew(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a, b, c": {"a", "b", "c"}, "a, b, c and 2 more": {"a", "b", "c", "d", "e"}} {
		if got := Few(names); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
}
