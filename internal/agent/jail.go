package agent

import "slices"

// A Jail is what differs about an agent that runs in place: on this machine, with the
// user's own home. See package jail.
type Jail struct {
	// Args switch its questions off, before whatever the user says. Bypass if there are none.
	Args []string
	// Env are further variables that it runs with, and Pass further ones of the user's.
	Env  map[string]string
	Pass []string
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
	// Seed is a file of the home of which it has a copy, made once.
	Seed string
	// Settings are what in it names programs to run, or tells the agent what to do
	// the next time, perhaps without a jail. It cannot be changed.
	Settings []Setting
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

func claudeJail() Jail {
	return Jail{State: []State{{
		// It replaces the file by renaming, which would take a writable home.
		Var: claudeDirVar, Name: ".claude", Told: true, Seed: ".claude.json",
		Settings: slices.Concat(files("{}\n", "settings.json", "settings.local.json"), files("", "CLAUDE.md"),
			dirs("commands", "agents", "skills", "hooks", "output-styles", "rules")),
	}}}
}

func codexJail() Jail {
	return Jail{
		// Not the flag of the same meaning, which a subcommand before it does not see.
		Args: []string{"-c", "approval_policy=never", "-c", "sandbox_mode=danger-full-access"},
		Pass: []string{"CODEX_CA_CERTIFICATE"},
		State: []State{{
			Var: codexDirVar, Name: ".codex",
			Settings: slices.Concat(files("", "config.toml", "AGENTS.md"), ifThere("AGENTS.override.md", "hooks.json"), dirs("prompts", "rules")),
		}},
	}
}

func geminiJail() Jail {
	return Jail{State: []State{{
		Name: ".gemini",
		Settings: slices.Concat(files("{}\n", "settings.json"), files("", "GEMINI.md"),
			dirs("commands", "extensions", "policies", "skills", "hooks")),
	}}}
}

func opencodeJail() Jail {
	return Jail{
		Env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"permission":"allow"}`},
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
	}
}

func piJail() Jail {
	return Jail{State: []State{{
		Var: "PI_CODING_AGENT_DIR", In: ".pi", Name: "agent",
		Settings: slices.Concat(files("{}\n", "settings.json"), ifThere("models.json"), files("", "AGENTS.md"), dirs("extensions", "skills", "prompts")),
	}}}
}
