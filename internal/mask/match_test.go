package mask

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitignored asks git itself which of the paths are ignored. Those that end in a slash
// are directories.
func gitignored(t testing.TB, files map[string]string, paths []string) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	for _, p := range paths {
		at := filepath.Join(dir, p)
		if strings.HasSuffix(p, "/") {
			must(t, os.MkdirAll(at, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, nil, 0o644))
	}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	init := exec.Command("git", "init", "-q", dir)
	init.Env = env
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command("git", "-C", dir, "check-ignore", "-z", "--stdin", "--no-index")
	c.Env = env
	var in bytes.Buffer
	for _, p := range paths {
		in.WriteString(strings.TrimSuffix(p, "/") + "\x00") // git looks what it is
	}
	c.Stdin = &in
	out, err := c.Output()
	if err != nil && c.ProcessState.ExitCode() != 1 {
		t.Fatalf("git check-ignore: %v", err)
	}
	ignored := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		ignored[p] = p != ""
	}
	return ignored
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setOf is a set of these files and nothing else. The user has agreed to them, or they
// were only found.
func setOf(t testing.TB, files map[string]string, agreed bool) *Set {
	t.Helper()
	names := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	var wish []Rule
	dirOf := func(name string) string {
		return strings.TrimSuffix(strings.TrimSuffix(name, filepath.Base(name)), "/")
	}
	for _, n := range names {
		more, err := Parse(files[n], dirOf(n), join(dirOf(n), FileName))
		must(t, err)
		wish = append(wish, more...)
	}
	if !agreed {
		wish = nil
	}
	s := NewSet(nil, wish, "")
	s.own = newList(nil)
	for _, n := range names { // who looks through the tree finds them anyway
		_, err := s.Add(dirOf(n), files[n])
		must(t, err)
	}
	return s
}

func hides(s *Set, path string) bool {
	clean, dir := strings.CutSuffix(path, "/")
	return s.Hides(clean, dir, nil) != nil
}

var paths = []string{
	"a", "b", "foo", "foobar", "barfoo", "foo.txt", "a.b", "d/foo", "d/e/foo", "d/e/f/foo", "d/e/f/", "d/", "d/e/", "d/g/foo/", "x/d/foo", "x/d/e",
	"x/d/", "foo bar", "foo ", "foo\t", " foo", "#foo", "!foo", `a\b`, "a*b", "axb", "a[b", "a]b", "a-b", "a^b", "a!b", "A", "Foo", "FOO.TXT", ".env", ".env.local",
	".env.example", "d/.env", "d/e/.env.example", "build/", "build/out/x", "src/build/x", "doc/frotz/", "doc/frotz/x", "k/doc/frotz/", "k/doc/frotz/y",
	"1", "7", "ab", "abc", "aé", "é", "dir/sub/deep/file.c", "dir/file.c", "dir/sub/", "dir/sub/deep/", "z/node/x", "**", "*", "[", "]", "-", `\`, "logs/debug.log",
	"logs/sub/debug.log", "debug.log", "x/logs/debug.log", "k/foo/bar/baz", "foo2/bar", "foo2/barx/baz", "\u00a0", "end\\",
}

var ignoreFiles = []map[string]string{
	{".gitignore": "foo"}, {".gitignore": "/foo"}, {".gitignore": "foo/"}, {".gitignore": "/foo/\n"}, {".gitignore": "d/foo"}, {".gitignore": "/d/foo"},
	{".gitignore": "**/foo"}, {".gitignore": "d/**"}, {".gitignore": "d/**/foo"}, {".gitignore": "d/**/"}, {".gitignore": "**/d/**/foo"}, {".gitignore": "**"},
	{".gitignore": "*"}, {".gitignore": "*\n!foo"}, {".gitignore": "*\n!d/\n!d/foo"}, {".gitignore": "d/*\n!d/foo"}, {".gitignore": "d/\n!d/foo"}, {".gitignore": "!foo\nfoo"},
	{".gitignore": "foo\n!foo\nfoo"}, {".gitignore": "foo*"}, {".gitignore": "*foo"}, {".gitignore": "f*o"}, {".gitignore": "f**o"}, {".gitignore": "d/f**o"},
	{".gitignore": "d**/foo"}, {".gitignore": "d/e**"}, {".gitignore": "/d**"}, {".gitignore": "d/***/foo"}, {".gitignore": "***/foo"}, {".gitignore": "a?b"}, {".gitignore": "d?foo"},
	{".gitignore": "a[x*]b"}, {".gitignore": "a[!x]b"}, {".gitignore": "a[^x]b"}, {".gitignore": "a[]x]b"}, {".gitignore": "a[]-^]b"}, {".gitignore": "a[*-z]b"},
	{".gitignore": "a[[]b"}, {".gitignore": "a[b"}, {".gitignore": `a\[b`}, {".gitignore": `a\*b`}, {".gitignore": `a\\b`}, {".gitignore": `a\xb`}, {".gitignore": `a[\]x]b`},
	{".gitignore": `a[\\]b`}, {".gitignore": `a[x-\z]b`}, {".gitignore": "a[-x]b"}, {".gitignore": "a[x-]b"}, {".gitignore": "[[:alpha:]]"}, {".gitignore": "[[:upper:]]"},
	{".gitignore": "[[:digit:]]"}, {".gitignore": "[[:digit:][:alpha:]]"}, {".gitignore": "[[:nope:]]"}, {".gitignore": "[[:alpha]"}, {".gitignore": "[[:]"}, {".gitignore": "[[:alpha:]"},
	{".gitignore": "a[[:punct:]]b"}, {".gitignore": "foo[[:space:]]"}, {".gitignore": "foo[[:blank:]]bar"}, {".gitignore": "[[:xdigit:]]"}, {".gitignore": "[[:graph:]]"}, {".gitignore": "[[:cntrl:]]"},
	{".gitignore": "foo "}, {".gitignore": `foo\ `}, {".gitignore": `foo\  `}, {".gitignore": "foo\t"}, {".gitignore": " foo"}, {".gitignore": "foo bar  "}, {".gitignore": "foo\r\nd/\r\n"},
	{".gitignore": "#foo"}, {".gitignore": `\#foo`}, {".gitignore": `\!foo`}, {".gitignore": "!foo"}, {".gitignore": "\n\n\nfoo\n\n"}, {".gitignore": "\ufefffoo\n"}, {".gitignore": `end\`}, {".gitignore": `end\\`},
	{".gitignore": "FOO"}, {".gitignore": ".env\n.env.*\n!.env.example\n"}, {".gitignore": "/*\n!/d\n/d/*\n!/d/foo"}, {".gitignore": "build"}, {".gitignore": "/build"}, {".gitignore": "doc/frotz/"}, {".gitignore": "frotz/"},
	{".gitignore": "logs/*.log"}, {".gitignore": "logs/**/*.log"}, {".gitignore": "**/logs/**"}, {".gitignore": "dir/*/deep"}, {".gitignore": "dir/*/*/file.c"}, {".gitignore": "*/file.c"}, {".gitignore": "**/*.c"}, {".gitignore": "/"}, {".gitignore": "//"}, {".gitignore": "!"}, {".gitignore": "foo//"},
	{".gitignore": "é"}, {".gitignore": "a?"}, {".gitignore": "a??"}, {".gitignore": "foo2/bar**"}, {".gitignore": "foo/bar**"}, {".gitignore": "foo2/b*"}, {".gitignore": `d\/foo`}, {".gitignore": `**\/foo`}, {".gitignore": `d/[e]/foo`}, {".gitignore": "d[/]foo"}, {".gitignore": "d[!a]foo"},
	{".gitignore": "foo", "d/.gitignore": "!foo"}, {".gitignore": "foo\n", "d/.gitignore": "!/foo\n", "d/e/.gitignore": "foo"}, {"d/.gitignore": "/foo"}, {"d/.gitignore": "e/foo"}, {"d/.gitignore": "**/foo"}, {"d/.gitignore": "*\n!e\n!e/**"}, {"d/e/.gitignore": "/f/"}, {".gitignore": "d/", "d/.gitignore": "!*"},
	{".gitignore": "d/e/foo\n", "d/.gitignore": "!e/foo"}, {"d/.gitignore": "foo/"}, {"d/.gitignore": "d/foo"},
}

// TestLikeGit compares with what git says of the same files.
func TestLikeGit(t *testing.T) {
	agreed := 0
	for _, files := range ignoreFiles {
		want, set := gitignored(t, files, paths), setOf(t, files, true)
		for _, p := range paths {
			if got, want := hides(set, p), want[strings.TrimSuffix(p, "/")]; got != want {
				t.Errorf("%q: %q is ignored: %t, git says %t", files, p, got, want)
			} else if got {
				agreed++
			}
		}
	}
	if agreed < 500 {
		t.Errorf("only %d paths were ignored by both: that proves little", agreed)
	}
}

// FuzzLikeGit wants no panic and no long wait, and, when it is asked to fuzz, agreement
// with git.
func FuzzLikeGit(f *testing.F) {
	for _, files := range ignoreFiles {
		f.Add(files[".gitignore"], "d/foo")
	}
	f.Add(strings.Repeat("*a", 32), strings.Repeat("a", 1000))
	f.Add(strings.Repeat("**/", 15)+"x", strings.Repeat("a/", 100))
	for _, h := range hostile {
		f.Add(h.line, h.path)
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		rules, err := Parse(text, "", "f")
		for i := range rules {
			r := &rules[i]
			if _, n := r.matches("", path, true); n > 16+4*(len(r.Text)+1)*(len(path)+1) {
				t.Errorf("%q takes %d steps for %q", r.Text, n, path)
			}
		}
		s := NewSet(nil, rules, "")
		s.Hides(path, false, func(*Rule) bool { return true })
		Shows(nil, rules)
		clean := filepath.Clean(path)
		if err != nil || !testing.Short() && os.Getenv("COFFER_FUZZ_GIT") == "" || clean != path || !filepath.IsLocal(path) || path == "." ||
			strings.Contains(path, ".git") || strings.ContainsAny(path+text, "\x00") || len(path) > 200 {
			return
		}
		files := map[string]string{".gitignore": text}
		if want, got := gitignored(t, files, []string{path})[path], hides(setOf(t, files, true), path); got != want {
			t.Errorf("%q: %q is ignored: %t, git says %t", text, path, got, want)
		}
	})
}

func TestBuiltin(t *testing.T) {
	s := NewSet(nil, nil, "")
	for path, want := range map[string]string{
		".env": ".env", "a/b/.env": ".env", ".ENV": ".env", ".env.local": ".env.*", ".env.example": "", ".env.production.example": "", ".env.sample": "", ".env.template": "",
		"server.key": "*.key", "Server.KEY": "*.key", "x.pem": "*.pem, with a private key in it", ".npmrc": ".npmrc, with a token in it", ".aws/credentials": ".aws/", "x/.aws/a/b": ".aws/",
		"service-account-prod.json": "service-account*.json", "credentials.json": "credentials.json", "docker-compose.override.yml": "docker-compose.override.yml",
		"docker-compose.yml": "", "node_modules/x/.env": "", ".git/config": "", "terraform.tfstate": "*.tfstate", "terraform.tfstate.backup": "*.tfstate.*", "id_ed25519": "id_ed25519", "id_ed25519.pub": "",
		".config/gcloud/x": ".config/gcloud/", "main.go": "", "environment": "", "monkey": "", "a.env": "", ".docker/config.json": ".docker/config.json", ".docker/x": "",
	} {
		got := ""
		if r := s.Hides(path, false, func(*Rule) bool { return true }); r != nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("%s is hidden by %q, want %q", path, got, want)
		}
	}
}

func rules(t *testing.T, lines ...string) []Rule {
	list, err := Parse(strings.Join(lines, "\n"), "", "x")
	must(t, err)
	return list
}

// TestWhoCounts: what the repository's files in the tree say cannot show what others hide.
func TestWhoCounts(t *testing.T) {
	for _, c := range []struct {
		own, wish, found string
		path             string
		hidden           bool
	}{
		{path: ".env", hidden: true},
		{own: "!.env", path: ".env"},
		{own: "!.env", wish: ".env", path: ".env", hidden: true},
		{wish: "!.env", path: ".env"}, // agreed to, or it would not be here
		{found: "!.env", path: ".env", hidden: true},
		{found: "!*", path: ".env", hidden: true},
		{wish: "*.secret", found: "!a.secret", path: "a.secret", hidden: true},
		{found: "*.secret\n!a.secret", path: "a.secret"},
		{found: "*.secret\n!a.secret", path: "b.secret", hidden: true},
		{wish: "!.env", found: ".env", path: ".env", hidden: true},
		{own: "*.mine", wish: "!x.mine", path: "x.mine"},
		// What takes back everything, or has only a name in common, means the file's own lines.
		{wish: "/*\n!*/", path: ".aws/x", hidden: true},
		{wish: "/*\n!**/", path: "src/a"},
		{wish: "/*\n!**/", path: "a", hidden: true},
		{wish: "!*", path: ".env", hidden: true},
		{wish: "*\n!*.go", path: ".env.go", hidden: true},
		{wish: "*\n!*.go", path: "main.go"},
		{wish: "*\n!*.go", path: "main.c", hidden: true},
		{wish: "!*.json", path: "credentials.json", hidden: true},
		{wish: "!credentials.json", path: "credentials.json"},
		{own: "*.mine", wish: "!x.*", path: "x.mine", hidden: true},
	} {
		s := NewSet(rules(t, c.own), rules(t, c.wish), "")
		if _, err := s.Add("", c.found); err != nil {
			t.Fatal(err)
		}
		if got := s.Hides(c.path, false, nil) != nil; got != c.hidden {
			t.Errorf("%+v: hidden %t", c, got)
		}
	}
}

// TestLater: what a file says while a sandbox runs adds, even if it says less than before.
func TestLater(t *testing.T) {
	s := NewSet(nil, nil, "")
	add := func(dir, text string) {
		t.Helper()
		if _, err := s.Add(dir, text); err != nil {
			t.Fatal(err)
		}
	}
	add("", "*.a\n")
	add("sub", "!x.a\n*.b\n!y.b\n")
	add("", "!*.a\n!*.b\n*.c\n")
	add("sub", "")
	for path, want := range map[string]bool{"x.a": true, "sub/x.a": true, "sub/x.b": true, "sub/y.b": false, "x.b": false, "x.c": true, "sub/x.c": true} {
		if got := s.Hides(path, false, nil) != nil; got != want {
			t.Errorf("%s: hidden %t", path, got)
		}
	}
	for i := range maxLater + 1 {
		if _, err := s.Add("", fmt.Sprintf("x%d", i)); err != nil {
			return
		}
	}
	t.Error("there is no end to it")
}

func TestShows(t *testing.T) {
	for line, want := range map[string]bool{
		"!.env": true, "!.env.example": false, "!.env.local": true, "!public.secret": false, "!*": false, "!*/": false, "!**/": false, "!*.go": false, "!*.json": false, "!.s*": false, "!*.key": true, "!fixtures/test.key": true, "!src/": false,
		"!.aws/": true, "!.AWS": true, "!README*": false, "!docs/**": false, "*.key": false, "![.]env": false, "!x.txt": false, "!.env.test.example": false, "!a/b/c.go": false, "!**/.env": true, "!/.env": true, "!credentials.json": true,
	} {
		if got := len(Shows(nil, rules(t, line))) > 0; got != want {
			t.Errorf("%s needs a yes: %t", line, got)
		}
	}
	if len(Shows(rules(t, "*.mine"), rules(t, "!x.mine"))) != 1 {
		t.Error("what the user hides can be shown without a yes")
	}
	if got := Shows(nil, rules(t, Starter())); len(got) > 0 {
		t.Errorf("the file that coffer writes needs a yes: %v", got)
	}
}

// TestNotAsked: a line that needs no yes shows nothing that others hide, whatever it is.
func TestNotAsked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(of ...string) (s string) {
		for range 1 + r.IntN(6) {
			s += of[r.IntN(len(of))]
		}
		return s
	}
	asked, hidden := 0, 0
	for range 200000 {
		show, says1, _ := ParseLine("!"+text("a", "A", "b", "\xff", ".", "/", "*", "**", "?", "[a/]", `\`), "", "x")
		hide, says2, _ := ParseLine(text("a", "A", "b", "\xff", ".", "/", "*", "?", "[!x]"), "", "y")
		if !says1 || !says2 {
			continue
		}
		in, name := "", text("a", "A", "b", "\xff", ".")
		if len(Shows([]Rule{hide}, []Rule{show})) > 0 {
			asked++
		} else if NewSet([]Rule{hide}, nil, "").In(in).Decide(name, true) != nil {
			if hidden++; NewSet([]Rule{hide}, []Rule{show}, "").In(in).Decide(name, true) == nil {
				t.Errorf("%q shows %q, which %q hides, without a yes", show.Text, name, hide.Text)
			}
		}
	}
	if asked < 1000 || hidden < 1000 {
		t.Errorf("%d lines need a yes, and %d that do not met a hidden file: that proves little", asked, hidden)
	}
}

func TestPrefix(t *testing.T) {
	s := NewSet(nil, rules(t, "/sub/x", "/y", "sub/z/"), "sub")
	for path, want := range map[string]bool{"x": true, "a/x": false, "y": false, "z/a": true, "sub/x": false} {
		if got := s.Hides(path, false, nil) != nil; got != want {
			t.Errorf("%s: hidden %t", path, got)
		}
	}
}

// hostile are lines that are hard to match, and paths to match them with.
var hostile = []struct{ line, path string }{
	{strings.Repeat("*a", 32) + "b", strings.Repeat("a", 255)},
	{strings.Repeat("*a", 15) + "*/" + strings.Repeat("*a", 15) + "b", strings.Repeat("a", 250) + "/" + strings.Repeat("a", 250)},
	{strings.Repeat("**/", 16) + "x", strings.Repeat("a/", 1000) + "a"},
	{strings.Repeat("**/a/", 10) + "**/b", strings.Repeat("a/", 1000) + "a"},
	{strings.Repeat("**/*a", 10) + "/b", strings.Repeat("aaa/", 500) + "a"},
	{strings.Repeat("*", 32) + "x/y", strings.Repeat("a/", 1000) + "a"},
	{"*" + strings.Repeat("[a-z]", 190) + "Z", strings.Repeat("a", 255)},
	{"*" + strings.Repeat("a", 900) + "b*", strings.Repeat("a", 255)},
	{"**/" + strings.Repeat("[!b]", 200), strings.Repeat("a/", 1000) + "a"},
}

// TestSteps: no line takes more steps than its length times the path's.
func TestSteps(t *testing.T) {
	for _, h := range hostile {
		r, says, err := ParseLine(h.line, "", "x")
		if err != nil || !says {
			t.Fatal(h.line, err)
		}
		at := strings.LastIndexByte(h.path, '/')
		if _, n := r.matches(h.path[:max(at, 0)], h.path[at+1:], false); n > 3*len(h.line)*len(h.path) {
			t.Errorf("%.60s takes %d steps, more than three times %d by %d", h.line, n, len(h.line), len(h.path))
		}
	}
}

// TestTooHard: what takes too many steps to tell is hidden.
func TestTooHard(t *testing.T) {
	text := strings.Repeat(strings.Repeat("*a", 31)+"[b]\n", 900)
	s := NewSet(nil, nil, "")
	_, err := s.Add("", text)
	must(t, err)
	if r := s.Hides(strings.Repeat("a", 255), false, nil); r == nil || !strings.Contains(r.Text, "too hard") {
		t.Errorf("it is hidden by %v", r)
	}
	if r := s.Hides("short", false, nil); r != nil {
		t.Errorf("another is hidden by %v", r)
	}
}
