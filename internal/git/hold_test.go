package git

import (
	"fmt"
	"os"
	"path/filepath"
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

func TestWithoutLost(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	text := packed([]ref{{"refs/heads/own", b, ""}, {"refs/remotes/origin/main", a, ""}, {"refs/remotes/origin/x", b, ""}, {"refs/tags/v1", b, c}, {"refs/tags/v2", a, c}})
	want := packed([]ref{{"refs/heads/own", b, ""}, {"refs/remotes/origin/main", a, ""}, {"refs/tags/v2", a, c}})
	got, dropped := withoutLost(text, func(id string) bool { return id == b })
	if got != want || !slices.Equal(dropped, []string{"refs/remotes/origin/x", "refs/tags/v1"}) {
		t.Errorf("got %s without %v, want %s", got, dropped, want)
	}
}

// What git inside has packed is a stranger's to write: whatever it is, lines are only left out.
func FuzzWithoutLost(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add("# pack-refs with: sorted \n" + id + " refs/tags/v1\n^" + id + "\n" + id + " refs/heads/x\n")
	f.Add("^\n\x00 \n " + id)
	f.Fuzz(func(t *testing.T, text string) {
		kept, _ := withoutLost(text, func(lost string) bool { return lost == id })
		rest := strings.SplitAfter(text, "\n")
		for line := range strings.Lines(kept) {
			i := slices.Index(rest, line)
			if i < 0 {
				t.Fatalf("%q was not in %q", line, text)
			}
			rest = rest[i+1:]
		}
	})
}

// A ref that is the first in a new directory changes what is looked at, beside others or in one
// that git has made and not yet put it into; what other sandboxes commit does not.
func TestRefPlaces(t *testing.T) {
	common := t.TempDir()
	for _, dir := range []string{"refs/heads/empty/er", "refs/heads/coffer/box", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(common, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got := refPlaces(common, []ref{{name: "refs/heads/main"}, {name: "refs/heads/deep/1/er"}})
	want := []string{"packed-refs", "reftable", "refs/heads", "refs/tags", "refs/heads/deep", "refs/heads/empty", "refs/heads/deep/1", "refs/heads/empty/er"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var many []ref
	for i := range 2 * maxRefPlaces {
		many = append(many, ref{name: fmt.Sprintf("refs/heads/deep/%d/er", i)})
	}
	if got := refPlaces(common, append(many, ref{name: "refs/heads/other/one"})); !slices.Contains(got, "refs/heads/other") || len(got) > maxRefPlaces+2 {
		t.Errorf("of many, %v", got)
	}
}

// What could not be held is held by the next try, and what is lost is noted once.
func TestHoldAgain(t *testing.T) {
	b, git := hostRepository(t)
	git("commit", "-q", "--allow-empty", "-m", "gone")
	gone, lost := git("rev-parse", "HEAD"), strings.Repeat("1", 40)
	git("reset", "-q", "--hard", "HEAD~")
	inTheWay := filepath.Join(b.Common, "refs", "coffer")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.unheld = gone + " refs/heads/gone\n" + lost + " refs/heads/lost\n"
	for range 2 {
		if err := b.hold(t.Context()); err == nil {
			t.Fatal("nothing was in the way, so this proves nothing")
		}
	}
	if !slices.Equal(b.lost, []string{lost}) {
		t.Errorf("lost: %v", b.lost)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := b.hold(t.Context()); err != nil {
		t.Error(err)
	}
	if held := git("for-each-ref", "--format=%(objectname)", "refs/coffer"); held != gone {
		t.Errorf("held: %q, want %s", held, gone)
	}
}
