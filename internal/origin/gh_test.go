package origin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var here = Repository{"github.com", "ada", "engine"}

func noFiles(name string) (string, error) { return "", errors.New("no file " + name) }

// A command line arrives as one that was made anew.
func TestCommand(t *testing.T) {
	for line, want := range map[string]string{
		"pr view":                                              "pr view --repo=github.com/ada/engine -- coffer/box",
		"pr view 12":                                           "pr view --repo=github.com/ada/engine -- 12",
		"pr view -c #12":                                       "pr view --repo=github.com/ada/engine --comments -- 12",
		"pr view 12 --json number,title":                       "pr view --repo=github.com/ada/engine --json=number,title -- 12",
		"pr list -L5 --state=merged -a @me":                    "pr list --repo=github.com/ada/engine --limit=5 --state=merged --assignee=@me",
		"pr list --label a,b -l c":                             "pr list --repo=github.com/ada/engine --label=a,b --label=c",
		"pr diff -- 3":                                         "pr diff --repo=github.com/ada/engine -- 3",
		"pr status":                                            "pr status --repo=github.com/ada/engine",
		"pr checks --required":                                 "pr checks --repo=github.com/ada/engine --required -- coffer/box",
		"pr create -t T -b B -d":                               "pr create --repo=github.com/ada/engine --title=T --body-file=- --draft --head=coffer/box",
		"pr create -tT -b=B -H other":                          "pr create --repo=github.com/ada/engine --title=T --body-file=- --head=coffer/box",
		"pr create -F file --title --repo=x/y":                 "pr create --repo=github.com/ada/engine --body-file=- --title=--repo=x/y --head=coffer/box",
		"pr edit 4 --add-label x --base main":                  "pr edit --repo=github.com/ada/engine --add-label=x --base=main -- 4",
		"pr comment 4 --body=--web":                            "pr comment --repo=github.com/ada/engine --body-file=- -- 4",
		"run view 99 --log-failed":                             "run view --repo=github.com/ada/engine --log-failed -- 99",
		"run view -j 7":                                        "run view --repo=github.com/ada/engine --job=7",
		"run list -b coffer/box --status failure -w ci.yml":    "run list --repo=github.com/ada/engine --branch=coffer/box --status=failure --workflow=ci.yml",
		"issue view 5 --comments":                              "issue view --repo=github.com/ada/engine --comments -- 5",
		"issue list -A ada --milestone v1 --mention ada-lovel": "issue list --repo=github.com/ada/engine --author=ada --milestone=v1 --mention=ada-lovel",
	} {
		a, err := Parse(strings.Fields(line), func(string) (string, error) { return "from a file", nil })
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		sent, _ := json.Marshal(a.Request)
		r, err := Read(bytes.NewReader(sent))
		if err != nil || !reflect.DeepEqual(r, a.Request) {
			t.Errorf("%s: sent %s, read %+v, %v", line, sent, r, err)
		}
		about := ""
		if r.OfBranch() {
			about = "coffer/box"
		}
		if got := strings.Join(r.Command(here, about, "coffer/box").Args, " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
	a, _ := Parse([]string{"pr", "comment", "1", "-b", "a\nb"}, noFiles)
	if c := a.Command(here, "", ""); c.Input != "a\nb" {
		t.Errorf("the text is %q", c.Input)
	}
	if a, err := Parse([]string{"pr", "view", "1", "--json", "title", "-q", "env"}, noFiles); err != nil || a.Query != "env" || len(a.Flags) != 1 {
		t.Errorf("jq: %+v, %v", a, err)
	}
}

// TestHostileArguments: what the table does not have does not exist, in whatever order.
func TestHostileArguments(t *testing.T) {
	for _, line := range []string{
		"", "auth token", "api repos/x/y", "pr merge 1", "pr close 1", "pr checkout 1", "repo delete x", "pr", "alias set x", "extension exec x", "secret set x",
		"--repo x/y pr view 1", "-R x/y pr view 1", "pr view 1 -R x/y", "pr view 1 --repo=x/y", "pr -R x/y view 1", "pr view -Rx/y 1",
		"pr view 1 --web", "pr view -w 1", "pr create --web", "pr create -e -t T -b B", "pr create --editor", "pr create -T f -t T -b B", "pr create --template=f -t T -b B",
		"pr create --recover f", "pr create -t T", "pr create -b B", "pr create --dry-run -t T -b B", "pr create -p proj -t T -b B",
		"pr list --search repo:x/y", "pr list -S x", "issue list --search x", "pr list --author a:b", "pr list --author repo:x/y", "pr list -A -x", "pr list --label a\"b",
		"pr list --limit 0", "pr list --limit -1", "pr list --limit 99999", "pr list --state odd", "pr list --head -x", "pr list --base a..b",
		"pr view 1 2", "pr view -1", "pr view https://github.com/x/y/pull/1", "pr view x:branch", "pr view branch", "pr view 0", "pr view 01", "pr view 1234567890123456789",
		"pr view 1 --json=a;b", "pr view 1 --json", "pr view 1 --template={{.}}", "pr view 1 -t x", "pr view --comments=false 1", "pr view 1 --jq env",
		"pr comment 1", "pr comment 1 -b", "pr comment 1 --edit-last -b x", "pr comment 1 --delete-last --yes", "pr comment 1 -F secret",
		"pr edit 1", "pr edit 1 --title a --title b", "pr checks --watch", "pr checks -i 1", "run view", "run view x", "run view --log", "run list -w ../x/$(y)", "run list -c HEAD",
		"run rerun 1", "run download 1", "run watch 1", "issue view", "issue create -t T -b B", "issue list -R x/y",
		"pr diff --color=always 1", "pr diff 1 -- --web", "pr view -- --web", "pr --help=x view",
	} {
		a, err := Parse(strings.Fields(line), noFiles)
		if err == nil && !a.Help {
			t.Errorf("%s: made %q", line, a.Command(here, "", "").Args)
		}
	}
	for name, text := range map[string]string{
		"nothing":             ``,
		"not JSON":            `pr view`,
		"a list":              `["pr","view"]`,
		"two":                 `{"group":"pr","verb":"view"}{"group":"pr","verb":"view"}`,
		"something after it":  `{"group":"pr","verb":"view"} x`,
		"a field too many":    `{"group":"pr","verb":"view","repo":"x/y"}`,
		"who it is":           `{"group":"pr","verb":"view","sandbox":"other"}`,
		"a verb":              `{"group":"pr","verb":"merge","number":"1"}`,
		"a verb with a space": `{"group":"pr view","verb":""}`,
		"an option":           `{"group":"pr","verb":"view","flags":[{"name":"repo","value":"x/y"}]}`,
		"a name with a value": `{"group":"pr","verb":"view","flags":[{"name":"json=a","value":""}]}`,
		"inside's own":        `{"group":"pr","verb":"comment","number":"1","flags":[{"name":"body-file","value":"/etc/passwd"}]}`,
		"jq":                  `{"group":"pr","verb":"view","number":"1","flags":[{"name":"json","value":"title"},{"name":"jq","value":"env"}]}`,
		"a value for none":    `{"group":"pr","verb":"view","flags":[{"name":"comments","value":"x"}]}`,
		"a number":            `{"group":"pr","verb":"view","number":"-R"}`,
		"a URL":               `{"group":"pr","verb":"view","number":"https://github.com/x/y/pull/1"}`,
		"a NUL":               `{"group":"pr","verb":"comment","number":"1","flags":[{"name":"body","value":"a\u0000b"}]}`,
		"a line break":        `{"group":"pr","verb":"edit","number":"1","flags":[{"name":"title","value":"a\nb"}]}`,
		"an escape":           `{"group":"pr","verb":"comment","number":"1","flags":[{"name":"body","value":"\u001b[2J"}]}`,
		"twice":               `{"group":"pr","verb":"edit","number":"1","flags":[{"name":"title","value":"a"},{"name":"title","value":"b"}]}`,
		"a long text":         `{"group":"pr","verb":"comment","number":"1","flags":[{"name":"body","value":"` + strings.Repeat("a", maxText+1) + `"}]}`,
		"too long":            `{"group":"pr","verb":"view"}` + strings.Repeat(" ", MaxRequest),
		"many":                `{"group":"pr","verb":"list","flags":[` + strings.Repeat(`{"name":"label","value":"a"},`, maxFlags) + `{"name":"label","value":"a"}]}`,
	} {
		if r, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read: %+v", name, r)
		}
	}
}

// checkMade sees to it that whatever was read, gh hears one verb, this repository, options
// of one word, and one number at most.
func checkMade(t *testing.T, r Request) {
	args := r.Command(here, "", "coffer/box").Args
	v, err := find(args[0], args[1])
	if err != nil || args[2] != "--repo=github.com/ada/engine" {
		t.Fatalf("made %q", args)
	}
	rest := args[3:]
	if i := slices.Index(rest, "--"); i >= 0 {
		if len(rest) != i+2 || !isNumber(rest[i+1]) {
			t.Fatalf("made %q", args)
		}
		rest = rest[:i]
	}
	for _, word := range rest {
		name, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		_, ok := v.flag(name)
		if !strings.HasPrefix(word, "--") || !ok && !(name == "body-file" && value == "-") && !(name == "head" && value == "coffer/box") || strings.ContainsRune(word, 0) {
			t.Fatalf("made %q", args)
		}
		if name == "head" && v.name == "create" && value != "coffer/box" {
			t.Fatalf("made %q", args)
		}
	}
	_ = r.String()
}

func FuzzRead(f *testing.F) {
	f.Add(`{"group":"pr","verb":"create","flags":[{"name":"title","value":"T"},{"name":"body","value":"B"},{"name":"head","value":"x"}]}`)
	f.Add(`{"group":"pr","verb":"view","number":"12","flags":[{"name":"json","value":"a,b"},{"name":"comments"}]}`)
	f.Add(`{"group":"run","verb":"list","flags":[{"name":"workflow","value":"ci.yml"},{"name":"commit","value":"abcd"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Read(strings.NewReader(text)); err == nil {
			checkMade(t, r)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("pr\ncreate\n-t\nT\n-b\nB")
	f.Add("pr\nview\n-c\n#12\n--json=a")
	f.Add("pr\nlist\n-L5\n--label\na,b\n--\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(strings.Split(text, "\n"), noFiles)
		if err != nil || a.Help || a.Fill {
			return
		}
		checkMade(t, a.Request)
		sent, err := json.Marshal(a.Request)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Read(bytes.NewReader(sent)); err != nil || fmt.Sprint(r) != fmt.Sprint(a.Request) {
			t.Fatalf("%q was sent as %s and read as %+v, %v", text, sent, r, err)
		}
	})
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]string{
		"team/engine":                 "github.com/team/engine",
		"Team/Engine.js":              "github.com/Team/Engine.js",
		"git.example.com/team/engine": "git.example.com/team/engine",
		"engine":                      "",
		"a/b/c/d":                     "",
		"-x/engine":                   "",
		"team/--web":                  "",
		"localhost/team/engine":       "",
		"team/":                       "",
		"team/a b":                    "",
	} {
		got, err := here.Named(name)
		if want == "" && err == nil || want != "" && got.String() != want {
			t.Errorf("%q: got %v, %v, want %q", name, got, err, want)
		}
	}
}

func TestParseURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.com/ada/engine":                     "github.com/ada/engine",
		"https://token:x@github.com/ada/engine.git":         "github.com/ada/engine",
		"git@github.com:ada/engine.git":                     "github.com/ada/engine",
		"ssh://git@ssh.github.com:443/ada/engine.git":       "github.com/ada/engine",
		"ssh://git@code.example.org:22/ada/engine":          "code.example.org/ada/engine",
		"https://GitHub.com/Ada/engine.git/":                "github.com/Ada/engine",
		"/srv/engine.git":                                   "",
		"../engine.git":                                     "",
		"file:///srv/ada/engine":                            "",
		"https://github.com/ada":                            "",
		"https://github.com/ada/engine/more":                "",
		"git@-oProxyCommand=x:ada/engine":                   "",
		"git@github.com:-R/engine":                          "",
		"git@github.com:../engine":                          "",
		"https://github.com/ada/engine%20--web":             "",
		"ext::sh -c x":                                      "",
		"https://github.com/ada/engine\n--repo=other/other": "",
	} {
		got, err := ParseURL(url)
		if want == "" && err == nil || want != "" && got.String() != want {
			t.Errorf("%q: got %s, %v; want %q", url, got, err, want)
		}
	}
}

// A gh in a place that a sandbox can write is not run.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, mode os.FileMode) string {
		d := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(d, 0o755), os.WriteFile(filepath.Join(d, "gh"), []byte("#!/bin/sh\n"), 0o755), os.Chmod(d, mode)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	open, work, good := put("open", 0o777), put("work/bin", 0o755), put("good", 0o755)
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(link, 0o755), os.Symlink(filepath.Join(work, "gh"), filepath.Join(link, "gh"))); err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{".", "bin", open, work, link, good}, ":")
	t.Setenv("PATH", path)
	if got, err := Look([]string{"", filepath.Join(dir, "work")}); got != filepath.Join(good, "gh") {
		t.Errorf("got %s, %v", got, err)
	}
	t.Setenv("PATH", strings.Join([]string{open, work, link}, ":"))
	if got, err := Look([]string{filepath.Join(dir, "work")}); err == nil || !strings.Contains(err.Error(), "others could have put it") {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := Look(nil); err != nil || got != filepath.Join(work, "gh") { // the control
		t.Errorf("got %s, %v", got, err)
	}
	t.Setenv("PATH", dir)
	if got, err := Look(nil); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("got %s, %v", got, err)
	}
}

// A name that the user has for a server becomes the server's; ssh is not asked about
// anything that could be more than a name.
func TestAliases(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
echo "$*" >>"${0%/*}/asked"
case $3 in
work) echo user git; echo hostname github.com;;
twice) echo hostname GitHub.example; echo hostname other.example;;
evil) echo "hostname --repo=x";;
long) yes hostnamehostname | head -c 100000; echo hostname late.example;;
fails) echo hostname github.com; exit 255;;
*) echo "hostname $3";;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	a := NewAliases(nil)
	for url, want := range map[string]string{
		"git@work:ada/engine.git":              "github.com/ada/engine",
		"ssh://git@work:22/ada/engine.git":     "github.com/ada/engine",
		"twice:ada/engine":                     "github.example/ada/engine",
		"git@code.example.org:ada/engine":      "code.example.org/ada/engine",
		"https://work.example/ada/engine":      "work.example/ada/engine",
		"git@evil:ada/engine":                  "",
		"git@long:ada/engine":                  "",
		"git@fails:ada/engine":                 "",
		"git@unknown:ada/engine":               "",
		"git@work:ada/engine/more":             "",
		"git@-oProxyCommand=x:ada/engine":      "",
		"ssh://-oProxyCommand=x/ada/engine":    "",
		"git@github.com:ada/engine":            "github.com/ada/engine",
		"/srv/work:ada/engine":                 "",
		"git@work\nhostname x:ada/engine":      "",
		"git@work --repo=other/x:ada/engine":   "",
		"https://git@code.example/ada/engine/": "code.example/ada/engine",
	} {
		got, err := ParseURL(a.Replace(t.Context(), url))
		if want == "" && err == nil || want != "" && got.String() != want {
			t.Errorf("%q: got %s, %v; want %q", url, got, err, want)
		}
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(asked)) {
		if words := strings.Fields(line); len(words) != 3 || words[0] != "-G" || words[1] != "--" || strings.ContainsAny(words[2], "=@/") || words[2] == "github.com" {
			t.Errorf("ssh was asked %q", line)
		}
	}
}

// What gh says cannot command a terminal, and names no token.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf '\\033[2Ja\\tb\\r\\n'; env | sort; pwd; cat; echo \"$HOME/x ghp_0123456789 https://me:pw@h/\" >&2; [ \"$1\" != login ] || exit 4; exit 3\n"
	program := filepath.Join(dir, "gh")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	t.Setenv("GH_TOKEN", "kept")
	for _, name := range []string{"GH_REPO", "GH_HOST", "GH_DEBUG", "GH_FORCE_TTY", "GIT_DIR", "LD_PRELOAD_X", "GH_PATH"} {
		t.Setenv(name, "dropped")
	}
	a, err := Run(t.Context(), program, Command{Args: []string{"x"}, Input: "input\n"})
	if err != nil || a.Exit != 3 {
		t.Fatalf("%+v, %v", a, err)
	}
	if !strings.HasPrefix(a.Out, "\\x1b[2Ja\tb\r\n") || strings.Contains(a.Out, "dropped") || !strings.Contains(a.Out, "GH_TOKEN=kept") || !strings.HasSuffix(a.Out, "\n/\ninput\n") {
		t.Errorf("got %q", a.Out)
	}
	if a.Err != "~/x … https…h/\n" {
		t.Errorf("got %q", a.Err)
	}
	if a, err := Run(t.Context(), program, Command{Args: []string{"login"}}); err != nil || !strings.Contains(a.Err, "not logged in") {
		t.Errorf("got %+v, %v", a, err)
	}
}
