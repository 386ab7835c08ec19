package git

import (
	"slices"
	"testing"
)

func TestClaim(t *testing.T) {
	b := &Bridge{State: State{Name: "box", Branch: "coffer/box"}}
	for _, c := range []struct {
		branch   string
		patterns []string
		want     claim
	}{
		{"coffer/box", nil, claimNew},
		{"coffer/box@side", nil, claimNew},
		{"coffer/box/side", []string{"*"}, claimNone},
		{"coffer/box2", []string{"*"}, claimNone},
		{"coffer/other", []string{"*", "coffer/*", "coffer/other"}, claimNone},
		{"coffer", []string{"*", "coffer"}, claimNone},
		{"main", nil, claimNone},
		{"main", []string{"*"}, claimNew},
		{"main", []string{"ma*", "main"}, claimAny},
		{"feature/x", []string{"feature/*"}, claimNew},
		{"feature", []string{"feature/*"}, claimNone},
		{"a-x-b-y-c", []string{"a*b*c"}, claimNew},
		{"ab", []string{"ab*b"}, claimNone},
	} {
		if got := b.claim(c.branch, c.patterns); got != c.want {
			t.Errorf("%s with %q: got %d, want %d", c.branch, c.patterns, got, c.want)
		}
	}
}

func TestLocalPath(t *testing.T) {
	for url, want := range map[string]bool{
		"/srv/x.git": true, "../x.git": true, "file:///srv/x.git": true, "./a:b": true, "x": true,
		"https://example.com/x": false, "git@example.com:x/y.git": false, "host:x": false, "ssh://host/x": false,
	} {
		if _, got := localPath(url); got != want {
			t.Errorf("%s: got %v", url, got)
		}
	}
}

func TestRedact(t *testing.T) {
	if got := Redact("unable to access 'https://me:hunter2@example.com/x': no"); got != "unable to access 'https://example.com/x': no" {
		t.Error(got)
	}
}

// Whatever repository of a sandbox it is about, all of the store is where sandboxes write.
func TestWritable(t *testing.T) {
	for _, b := range []*Bridge{
		{dir: "/store/abc", State: State{Tree: "/store/abc/workspace/x"}},
		{dir: "/store/abc/include/lib", State: State{Include: "lib", Tree: "/store/abc/include/lib/workspace/lib"}},
	} {
		if got := b.Writable([]string{"/mine"}); !slices.Contains(got, "/store") || !slices.Contains(got, "/mine") || !slices.Contains(got, b.Tree) {
			t.Errorf("%s: %q", b.dir, got)
		}
	}
}
