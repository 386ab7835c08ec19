package agent

import (
	"slices"
	"strings"
	"testing"
)

// The words in which each agent is spoken to. The prompt is one argument, whatever is in
// it, and the user's own arguments are there as they are.
func TestArgv(t *testing.T) {
	const prompt = "say \"hi\"\n$(now) 'x'"
	for _, a := range Known() {
		for _, turn := range []Turn{
			{Prompt: prompt}, {Prompt: prompt, Headless: true}, {Prompt: prompt, Resume: true},
			{Prompt: prompt, Headless: true, Resume: true}, {}, {Resume: true}, {Prompt: "--help", Headless: true},
		} {
			turn.Extra = []string{"--model", "big one"}
			turn.Dir, turn.Guide, turn.Text = "/w", "/g", "you are here"
			argv := a.Argv(a, turn)
			line := strings.Join(argv, "\x00")
			if argv[0] != a.Command {
				t.Errorf("%s: starts with %q", a.Name, argv[0])
			}
			if !strings.Contains(line, "--model\x00big one") {
				t.Errorf("%s: the user's arguments are not there: %q", a.Name, argv)
			}
			if turn.Prompt != "" && !strings.HasSuffix(line, turn.Prompt) {
				t.Errorf("%s: the prompt is not the last: %q", a.Name, argv)
			}
			for _, b := range a.Bypass {
				if !slices.Contains(argv, b) {
					t.Errorf("%s: asks before it acts: %q", a.Name, argv)
				}
			}
			if last := argv[len(argv)-1]; turn.Prompt == "--help" && last == "--help" && argv[len(argv)-2] != "--" {
				t.Errorf("%s: the prompt would be a flag: %q", a.Name, argv)
			}
			resumed := slices.ContainsFunc(argv, func(s string) bool { return s == "--continue" || s == "--last" || s == "latest" })
			if resumed != turn.Resume {
				t.Errorf("%s: resume is %v: %q", a.Name, resumed, argv)
			}
		}
	}
}

// Flags of claude and codex take any number of words. What follows the user's own arguments
// is not one more.
func TestArgvAfterList(t *testing.T) {
	for _, a := range []*Agent{claude(), codex()} {
		for _, turn := range []Turn{{}, {Headless: true}, {Resume: true}, {Headless: true, Resume: true}} {
			turn.Prompt, turn.Extra = "fix it", []string{"--list", "one", "two"}
			argv := a.Argv(a, turn)
			if next := argv[slices.Index(argv, "two")+1]; !strings.HasPrefix(next, "-") {
				t.Errorf("%s: the list goes on with %q: %q", a.Name, next, argv)
			}
		}
	}
}

func TestCodexText(t *testing.T) {
	if got := tomlText("a \"b\"\\\n\t\x01ü"); got != `"a \"b\"\\\n\t\u0001ü"` {
		t.Error(got)
	}
}

func TestVariables(t *testing.T) {
	a := claude()
	got := a.Variables(func(name string) (string, bool) {
		v, ok := map[string]string{"ANTHROPIC_API_KEY": "k", "AWS_SECRET": "no", "IS_SANDBOX": "0"}[name]
		return v, ok
	})
	if !slices.Contains(got, "ANTHROPIC_API_KEY=k") || !slices.Contains(got, "IS_SANDBOX=1") || strings.Contains(strings.Join(got, " "), "AWS") {
		t.Errorf("%q", got)
	}
}

// A sixth agent needs nothing but a config file.
func TestCustom(t *testing.T) {
	c := Custom{Args: []string{"--yolo"}, Headless: []string{"-p"}, Prompt: []string{"-i"}, Resume: []string{"-c"}, Instructions: ".mine/AGENTS.md", Credentials: []string{".mine/auth.json"}}
	a := c.With("mine", nil)
	for _, tt := range []struct {
		turn Turn
		want string
	}{
		{Turn{}, "mine --yolo"},
		{Turn{Prompt: "x"}, "mine --yolo -i x"},
		{Turn{Prompt: "x", Headless: true, Extra: []string{"-z"}}, "mine --yolo -z -p x"},
		{Turn{Resume: true}, "mine --yolo -c"},
	} {
		if got := strings.Join(a.Argv(a, tt.turn), " "); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	files := a.Files(a, Scene{Text: "here"})
	if len(files) != 1 || files[0].Name != ".mine/AGENTS.md" || string(files[0].Content) != "here" {
		t.Errorf("%+v", files)
	}
	// One that is known is changed, and the known one is not.
	b := Custom{Args: []string{"--model", "m"}, Env: map[string]string{"A": "1"}}.With("claude", claude())
	if got := strings.Join(b.Argv(b, Turn{}), " "); got != "claude --dangerously-skip-permissions --model m" {
		t.Error(got)
	}
	if b.Env["A"] != "1" || b.Env["IS_SANDBOX"] != "1" || claude().Env["A"] != "" {
		t.Errorf("%v", b.Env)
	}
	for _, bad := range []Custom{
		{Command: "/bin/x"}, {Command: "a b"}, {Package: "-g"}, {Package: "../x"}, {Instructions: "/etc/x"},
		{Credentials: []string{"../x"}}, {Conversation: "a/../b"}, {Credentials: []string{"."}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"2.1.197 (Claude Code)", "2.1.197"}, {"codex-cli 0.166.0", "0.166.0"}, {"v22.1.0", "22.1.0"},
		{"1.2.3-beta.1", "1.2.3-beta.1"}, {"none", ""}, {strings.Repeat("x", 5000) + "1.2", ""},
	} {
		if got := VersionIn(tt.in); got != tt.want {
			t.Errorf("%.30q: %q, want %q", tt.in, got, tt.want)
		}
	}
	if compareVersions("0.9.10", "0.10.1") >= 0 || compareVersions("2.0", "2.0.0") != 0 || compareVersions("10.0.0", "9.9.9") <= 0 {
		t.Error("versions are compared as texts")
	}
	a := &Agent{Least: "1.2.0"}
	if !a.TooOld("1.1.9") || a.TooOld("1.2.0") || a.TooOld("") {
		t.Error("too old")
	}
}

// codex divides names of settings at every dot, so that a directory is never one.
func TestCodexTrustsTheDirectory(t *testing.T) {
	a := codex()
	argv := a.Argv(a, Turn{Dir: `/home/me/.local/a "b"`})
	if want := `projects={"/home/me/.local/a \"b\""={trust_level="trusted"}}`; !slices.Contains(argv, want) {
		t.Errorf("%q is not in %q", want, argv)
	}
}
