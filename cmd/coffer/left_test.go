package main

import "testing"

func TestLeftAt(t *testing.T) {
	for _, c := range []struct{ name, branch, want string }{
		{"one", "coffer/one", "one on coffer/one: 'coffer attach one' watches, 'coffer diff one' shows what it did"},
		{"one", "", "one: 'coffer attach one' watches, 'coffer diff one' shows what it did"},
	} {
		if got := leftAt(c.name, c.branch); got != c.want {
			t.Errorf("%q, %q: %s", c.name, c.branch, got)
		}
	}
}
