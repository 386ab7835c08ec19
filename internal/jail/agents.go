package jail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cofferhq/coffer/internal/hint"
)

// An Agent is a coding agent and what it needs of a machine.
type Agent struct {
	Name string
	// Args keep it from asking before it acts: the jail is the wall.
	Args []string
	// Env names its own variables, above all its credentials, which no other
	// program is given.
	Env []string
	// Set has variables that it runs with.
	Set map[string]string
	// State is where it keeps what it remembers.
	State []State
}

// A State is a directory of an agent.
type State struct {
	Var  string // the variable by which a user moves it
	Base string // the variable that its parent is named by, such as XDG_CONFIG_HOME
	In   string // the parent without that, in the home
	Name string // its name in the parent
	// Told says that the variable is set even if the user did not.
	Told bool
	// Settings are what in it names programs to run, or tells the agent what to do
	// the next time, perhaps without a jail. It cannot be changed.
	Settings []Setting
	seed     func(dir, home string) error
}

// A Setting is a file or directory of settings. One that is missing is made, empty, or
// it could be made by somebody else.
type Setting struct {
	Name    string
	File    bool
	Content string
	IfThere bool // leave it missing: its absence means something
}

func dirs(names ...string) (all []Setting) {
	for _, n := range names {
		all = append(all, Setting{Name: n})
	}
	return all
}

func files(content string, names ...string) (all []Setting) {
	for _, n := range names {
		all = append(all, Setting{Name: n, File: true, Content: content})
	}
	return all
}

func ifThere(names ...string) (all []Setting) {
	for _, n := range names {
		all = append(all, Setting{Name: n, File: true, IfThere: true})
	}
	return all
}

// Agents are those that are known by name.
var Agents = sync.OnceValue(func() []*Agent {
	return []*Agent{
		{
			Name: "claude",
			Args: []string{"--dangerously-skip-permissions"},
			Env: []string{
				"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
				"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
				"ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_OAUTH_TOKEN",
				"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "MAX_THINKING_TOKENS",
				"DISABLE_TELEMETRY",
			},
			// As root it asks for the first. The second: what it downloads would run
			// outside the next time.
			Set: map[string]string{"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1"},
			State: []State{{
				Var: "CLAUDE_CONFIG_DIR", Name: ".claude", Told: true, seed: seedClaude,
				Settings: slices.Concat(files("{}\n", "settings.json", "settings.local.json"), files("", "CLAUDE.md"),
					dirs("commands", "agents", "skills", "hooks", "output-styles", "rules")),
			}},
		},
		{
			Name: "codex",
			// Not the flag of the same meaning, which a subcommand before it does not see.
			Args: []string{"-c", "approval_policy=never", "-c", "sandbox_mode=danger-full-access"},
			Env:  []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_API_KEY", "CODEX_CA_CERTIFICATE"},
			State: []State{{
				Var: "CODEX_HOME", Name: ".codex",
				Settings: slices.Concat(files("", "config.toml", "AGENTS.md"), ifThere("AGENTS.override.md", "hooks.json"), dirs("prompts", "rules")),
			}},
		},
		{
			Name: "gemini",
			Args: []string{"--yolo"},
			Env: []string{
				"GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT",
				"GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
			},
			Set: map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"},
			State: []State{{
				Name:     ".gemini",
				Settings: slices.Concat(files("{}\n", "settings.json"), files("", "GEMINI.md"), dirs("commands", "extensions", "policies", "skills", "hooks")),
			}},
		},
		{
			Name: "opencode",
			Env:  []string{"OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_DISABLE_MODELS_FETCH"},
			Set:  map[string]string{"OPENCODE_CONFIG_CONTENT": `{"permission":"allow"}`, "OPENCODE_DISABLE_AUTOUPDATE": "1"},
			State: []State{
				{
					Base: "XDG_CONFIG_HOME", In: ".config", Name: "opencode",
					Settings: slices.Concat(files("{}\n", "opencode.json"), ifThere("opencode.jsonc", "config.json"), files("", "AGENTS.md"),
						dirs("plugin", "plugins", "command", "commands", "agent", "agents", "tool", "tools", "skill", "skills")),
				},
				{Base: "XDG_DATA_HOME", In: ".local/share", Name: "opencode"},
				{Base: "XDG_STATE_HOME", In: ".local/state", Name: "opencode"},
				{Base: "XDG_CACHE_HOME", In: ".cache", Name: "opencode"},
			},
		},
		{
			Name: "pi",
			Env:  []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
			State: []State{{
				Var: "PI_CODING_AGENT_DIR", In: ".pi", Name: "agent",
				Settings: slices.Concat(files("{}\n", "settings.json"), ifThere("models.json"), files("", "AGENTS.md"), dirs("extensions", "skills", "prompts")),
			}},
		},
	}
})

// FindAgent finds an agent by name.
func FindAgent(name string) *Agent {
	for _, a := range Agents() {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Environ is what the agent's environment has beyond that of any program. lookup finds a
// variable of the user's.
func (a *Agent) Environ(home string, lookup func(string) (string, bool)) map[string]string {
	env := map[string]string{}
	for _, name := range a.Env {
		if v, ok := lookup(name); ok {
			env[name] = v
		}
	}
	for name, v := range a.Set {
		env[name] = v
	}
	for _, s := range a.State {
		if _, set := lookup(s.Var); s.Var != "" && (set || s.Told) {
			env[s.Var] = s.dir(home, lookup)
		}
	}
	return env
}

// dir is where the state is.
func (s *State) dir(home string, lookup func(string) (string, bool)) string {
	if v, ok := lookup(s.Var); s.Var != "" && ok && filepath.IsAbs(v) {
		return filepath.Clean(v)
	}
	if v, ok := lookup(s.Base); s.Base != "" && ok && filepath.IsAbs(v) {
		return filepath.Join(v, s.Name)
	}
	return filepath.Join(home, s.In, s.Name)
}

// prepare makes the directory if it is missing, and says where it really is. A user who
// chose the place is not cut off from it, unless it is one that nobody may have.
func (s *State) prepare(home string, lookup func(string) (string, bool)) (string, error) {
	dir := s.dir(home, lookup)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the agent's directory: %w", err)
	}
	real, err := Resolve(dir)
	if err != nil {
		return "", err
	}
	if why := tooMuch(real, home); why != "" {
		return "", hint.New(fmt.Sprintf("the agent's directory %s cannot be written to in a jail: %s", dir, why), "set "+s.Var+" to a directory of its own")
	}
	if s.seed != nil {
		return real, s.seed(real, home)
	}
	return real, nil
}

// maxSeed bounds the file that is copied once.
const maxSeed = 64 << 20

// seedClaude gives claude's file of settings and history a place where it can be replaced
// by rename, which is how claude writes it: in its own directory instead of the home. It
// starts as a copy of the one in the home, and is left alone from then on.
func seedClaude(dir, home string) error {
	to := filepath.Join(dir, ".claude.json")
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	content := []byte("{}\n")
	if f, err := os.Open(filepath.Join(home, ".claude.json")); err == nil {
		content, err = io.ReadAll(io.LimitReader(f, maxSeed))
		f.Close()
		if err == nil && len(content) == maxSeed {
			err = errors.New("the file is too large")
		}
		if err != nil {
			return fmt.Errorf("read claude's settings: %w", err)
		}
	}
	tmp, err := os.CreateTemp(dir, ".claude.json.new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("seed %s: %w", to, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Link(tmp.Name(), to) // does not replace what somebody else made meanwhile
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("seed %s: %w", to, err)
	}
	return nil
}
