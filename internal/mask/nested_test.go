package mask

import (
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
			}
		}
	}
	t.Logf("%d paths are ignored by both, %d shown by a line further down", both, shown)
	if both < 10*rounds || shown < rounds/2 {
		t.Errorf("%d paths were ignored by both, and %d shown by a line further down: that proves little", both, shown)
	}
}

// TestFound: files in the tree hide, and show only what they hide themselves.
func TestFound(t *testing.T) {
	for _, c := range []struct {
		own, wish string
		files     []string // DIR, TEXT
		hidden    map[string]bool
	}{
		{files: []string{"sub", "!.env\n*.x\n"}, hidden: map[string]bool{"sub/.env": true, "sub/a.x": true}},
		{files: []string{"", "*.x\n", "sub", "!a.x\n"}, hidden: map[string]bool{"sub/a.x": true}},
		{files: []string{"sub", "*.x\n!a.x\n"}, hidden: map[string]bool{"sub/a.x": false, "sub/b.x": true}},
		{own: "*.mine", files: []string{"sub", "!a.mine\n"}, hidden: map[string]bool{"sub/a.mine": true}},
		{wish: "/sub/w", files: []string{"sub", "!w\n"}, hidden: map[string]bool{"sub/w": true}},
		{files: []string{"sub", "!.env.example\n"}, hidden: map[string]bool{"sub/.env.example": false}},
		{files: []string{"", ".env.example\n", "sub", "!.env.example\n"}, hidden: map[string]bool{"sub/.env.example": true}},
		{wish: "/docs/*\nbuild/**/out.?", files: []string{"", "lib/*\n", "sub", "*.x\n!a.x\n"}, hidden: map[string]bool{"sub/a.x": false, "sub/b.x": true}},
		{wish: "/s*/*", files: []string{"sub", "*.x\n!a.x\n"}, hidden: map[string]bool{"sub/a.x": true}},
		{wish: "/*\n!*/", files: []string{"sub", "*\n!*/\n!*.go\n"}, hidden: map[string]bool{"sub/.aws/x": true, "sub/a.go": false, "sub/a.c": true, "sub/.env.go": true}},
	} {
		s := NewSet(rules(t, c.own), rules(t, c.wish), "")
		for i := 0; i < len(c.files); i += 2 {
			if _, err := s.Add(c.files[i], c.files[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		for path, want := range c.hidden {
			if got := s.Hides(path, false, nil) != nil; got != want {
				t.Errorf("%+v: %s is hidden: %t", c, path, got)
			}
		}
	}
}

// TestAgreedThenChanged: a file that has changed since the user agreed to it hides more, and
// shows no more.
func TestAgreedThenChanged(t *testing.T) {
	root, err := Parse("*.x\n!.env\n", "", FileName)
	must(t, err)
	s := NewSet(nil, root, "")
	for _, text := range []string{"*.x\n!.env\n", "*.x\n*.y\n!.env\n!*.x\n!*.key"} {
		if _, err := s.Add("", text); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{".env": false, "a.x": true, "a.y": true, "a.key": true} {
		if got := s.Hides(path, false, nil) != nil; got != want {
			t.Errorf("%s is hidden: %t", path, got)
		}
	}
}
