package agent

func opencode() *Agent {
	return &Agent{
		Name: "opencode", Title: "opencode", Command: "opencode", Package: "opencode-ai", Least: "1.0.0",
		Env: map[string]string{
			"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
		},
		Pass: []string{
			"OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY",
			"OPENCODE_CONFIG_CONTENT",
		},
		CA:          []string{"NODE_EXTRA_CA_CERTS"},
		Talks:       ".local/share/opencode/opencode.db",
		Credentials: []Credential{{Name: ".local/share/opencode/auth.json", Tokens: []string{"*.access", "*.refresh", "*.expires"}}},
		Settings:    []string{".config/opencode/opencode.json", ".config/opencode/opencode.jsonc", ".config/opencode/config.json"},
		ByInput:     true, // it puts quotes around an argument
		Argv:        Words{First: []string{"run"}, Resume: []string{"--continue"}, PromptIn: "--prompt="}.argv,
		Files:       opencodeFiles,
		Login:       []string{"opencode", "auth", "login"},
		LoginHelp:   "choose a provider and log in",
		Jail:        opencodeJail,
	}
}

const opencodeConfig = Managed + "/opencode.json"

// opencodeFiles is a config besides the user's: it merges them.
func opencodeFiles(a *Agent, s Scene) []File {
	a.Env["OPENCODE_CONFIG"] = s.Home + "/" + opencodeConfig
	return []File{{Name: opencodeConfig, Content: jsonText(map[string]any{
		"permission": "allow", "autoupdate": false, "share": "disabled", "instructions": []string{s.Guide},
	})}}
}
