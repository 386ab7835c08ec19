package mask

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomTree makes paths, and files in some of their directories that say what to ignore,
// with many negations among them.
func randomTree(r *rand.Rand) (paths []string, files map[string]string) {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	dirs := []string{""}
	for range 20 {
		p := join(dirs[r.IntN(len(dirs))], pick("a", "b", "ab"))
		if !slices.Contains(dirs, p) && strings.Count(p, "/") < 4 {
			dirs = append(dirs, p)
			paths = append(paths, p+"/")
		}
	}
	for _, d := range dirs {
		paths = append(paths, join(d, "x.s"), join(d, "y.s"), join(d, ".env"))
	}
	files = map[string]string{}
	for i := range 4 + r.IntN(6) {
		var text strings.Builder
		for range 1 + r.IntN(5) {
			p := pick("", "", "!", "!") + pick("", "", "", "", "/", "**/", "*/", "a/", "b/**/") +
				pick("x.s", "y.s", ".env", "*.s", "?.s", "[xy].s", ".e*", "a", "a*", "**") + pick("", "", "", "", "/", "/**", "/*")
			text.WriteString(p + "\n")
		}
		in := dirs[r.IntN(len(dirs))]
		if i == 0 {
			in = ""
			text.WriteString(pick("*.s\n", "*.s\n.env\n", ".e*\n", "*.s\n!x.s\n"))
		}
		files[join(in, ".gitignore")] = text.String()
	}
	return paths, files
}

// TestNestedLikeGit compares with git over random trees with files in many directories: all
// of them agreed to, it is what git says. Only found, they hide at least as much, and no
// file shows what another one hides.
func TestNestedLikeGit(t *testing.T) {
	const rounds = 60
	both, shown := 0, 0 // ignored in both; shown by a line of a file further down
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 6))
		paths, files := randomTree(r)
		want := gitignored(t, files, paths)
		agreed, found := setOf(t, files, true), setOf(t, files, false)
		if len(agreed.Refused()) > 0 {
			t.Errorf("seed %d: lines are refused that were agreed to: %v", seed, agreed.Refused())
		}
		for _, p := range paths {
			name := strings.TrimSuffix(p, "/")
			got, strict := hides(agreed, p), hides(found, p)
			if got != want[name] {
				t.Errorf("seed %d: %s is ignored: %t, git says %t; %q", seed, p, got, want[name], files)
			}
			if got && !strict {
				t.Errorf("seed %d: %s is seen as long as nobody agrees; %q", seed, p, files)
			}
			if got {
				both++
			}
			if strict && !got {
				shown++
				if len(found.Refused()) == 0 {
					t.Errorf("seed %d: %s needs a yes to be seen, and nobody is told; %q", seed, p, files)
				}
			}
		}
	}
	t.Logf("%d paths are ignored by both, %d shown by a line further down", both, shown)
	if both < 10*rounds || shown < rounds/2 {
		t.Errorf("%d paths were ignored by both, and %d shown by a line further down: that proves little", both, shown)
	}
}

// TestRefused: which lines of files in the tree are not taken, and that they are told.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		own, wish string
		files     []string // DIR, TEXT
		refused   []string
		hidden    map[string]bool
	}{
		{files: []string{"sub", "!.env\n*.x\n"}, refused: []string{"sub/.sandboxignore:1 !.env"}, hidden: map[string]bool{"sub/.env": true, "sub/a.x": true}},
		{files: []string{"", "*.x\n", "sub", "!a.x\n"}, refused: []string{"sub/.sandboxignore:1 !a.x"}, hidden: map[string]bool{"sub/a.x": true}},
		{files: []string{"sub", "*.x\n!a.x\n"}, hidden: map[string]bool{"sub/a.x": false, "sub/b.x": true}},
		{own: "*.mine", files: []string{"sub", "!a.mine\n"}, refused: []string{"sub/.sandboxignore:1 !a.mine"}, hidden: map[string]bool{"sub/a.mine": true}},
		{wish: "/sub/w", files: []string{"sub", "!w\n"}, refused: []string{"sub/.sandboxignore:1 !w"}, hidden: map[string]bool{"sub/w": true}},
		{files: []string{"sub", "!.env.example\n"}, hidden: map[string]bool{"sub/.env.example": false}},
		{files: []string{"", ".env.example\n", "sub", "!.env.example\n"}, refused: []string{"sub/.sandboxignore:1 !.env.example"}, hidden: map[string]bool{"sub/.env.example": true}},
		{files: []string{"sub", "!README.txt\n"}},
		// Lines about other places are no others' lines.
		{wish: "/docs/*\nbuild/**/out.?", files: []string{"", "lib/*\n", "sub", "*.x\n!a.x\n"}, hidden: map[string]bool{"sub/a.x": false, "sub/b.x": true}},
		{wish: "/s*/*", files: []string{"sub", "*.x\n!a.x\n"}, refused: []string{"sub/.sandboxignore:2 !a.x"}, hidden: map[string]bool{"sub/a.x": true}},
		{wish: "/*\n!*/", files: []string{"sub", "*\n!*/\n!*.go\n"}, hidden: map[string]bool{"sub/.aws/x": true, "sub/a.go": false, "sub/a.c": true, "sub/.env.go": true}},
	} {
		s := NewSet(rules(t, c.own), rules(t, c.wish), "")
		for i := 0; i < len(c.files); i += 2 {
			if _, err := s.Add(c.files[i], c.files[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, f := range s.Refused() {
			for _, l := range f.Lines {
				got = append(got, l.From+" "+l.Text)
			}
		}
		if !slices.Equal(got, c.refused) {
			t.Errorf("%+v: refused are %q", c, got)
		}
		for path, want := range c.hidden {
			if got := s.Hides(path, false, nil) != nil; got != want {
				t.Errorf("%+v: %s is hidden: %t", c, path, got)
			}
		}
	}
}

// TestAgreedThenChanged: what the user agreed to stays, and a file that has changed since
// hides more and shows no more.
func TestAgreedThenChanged(t *testing.T) {
	wish, err := Parse("!.env\n", "sub", "sub/"+FileName)
	must(t, err)
	root, err := Parse(".env\n*.x\n", "", FileName)
	must(t, err)
	s := NewSet(nil, append(root, wish...), "")
	add := func(dir, text string, refused int) {
		t.Helper()
		if _, err := s.Add(dir, text); err != nil {
			t.Fatal(err)
		}
		if got := len(s.Refused()); got != refused {
			t.Errorf("%d files are refused after %q, want %d", got, text, refused)
		}
	}
	wants := func(path string, hidden bool) {
		t.Helper()
		if got := s.Hides(path, false, nil) != nil; got != hidden {
			t.Errorf("%s is hidden: %t", path, got)
		}
	}
	add("", ".env\n*.x\n", 0)
	add("sub", "!.env\n", 0)
	wants("sub/.env", false)
	wants(".env", true)
	add("", ".env\n*.x\n*.y\n", 0) // the root's file has another line: the one further down still counts
	wants("sub/.env", false)
	wants("sub/a.y", true)
	add("sub", "!.env\n!*.x\n", 1)
	wants("sub/a.x", true)
	wants("sub/.env", false)
	add("sub/deep", ".env\n", 1)
	wants("sub/deep/.env", true)
}

// TestManyNegations: lines that are many and long to compare do not keep us busy, and count
// as refused.
func TestManyNegations(t *testing.T) {
	var hide, show strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&hide, "%s%d\n", strings.Repeat("a*", 30), i)
		fmt.Fprintf(&show, "!%s%d\n", strings.Repeat("b*", 30), i)
	}
	s := NewSet(nil, nil, "")
	_, err := s.Add("", hide.String())
	must(t, err)
	_, err = s.Add("sub", show.String())
	must(t, err)
	if got := s.Refused(); len(got) != 1 || len(got[0].Lines) < 900 {
		t.Errorf("%d files are refused", len(got))
	}
	if s.found.spare < -(1 << 20) {
		t.Errorf("it went on for %d steps too many", -s.found.spare)
	}
}
