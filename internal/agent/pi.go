package agent

import "strings"

func pi() *Agent {
	return &Agent{
		Name: "pi", Title: "pi", Command: "pi", Package: "@earendil-works/pi-coding-agent", Least: "0.70.0",
		Env:         map[string]string{"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"},
		Pass:        []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
		CA:          []string{"NODE_EXTRA_CA_CERTS"},
		Talks:       ".pi/agent/sessions",
		Credentials: []Credential{{Name: ".pi/agent/auth.json", Tokens: []string{"*.access", "*.refresh", "*.expires"}}},
		Settings:    []string{".pi/agent/settings.json", ".pi/agent/models.json"},
		Groups:      []string{"agents"},
		Argv: func(a *Agent, t Turn) []string {
			args := append([]string{a.Command}, a.Bypass...)
			if t.Guide != "" {
				args = append(args, "--append-system-prompt", t.Guide)
			}
			if t.Resume {
				args = append(args, "--continue")
			}
			args = append(args, t.Extra...)
			if t.Headless {
				args = append(args, "-p")
			}
			// What begins with - or @ it takes for something else, wherever it stands.
			if t.Prompt != "" && strings.ContainsRune("-@", rune(t.Prompt[0])) {
				t.Prompt = " " + t.Prompt
			}
			return words(args, t.Prompt)
		},
		Login:     []string{"pi"},
		LoginHelp: "type /login, then leave with /quit",
		Jail:      piJail,
	}
}
