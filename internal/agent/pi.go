package agent

func pi() *Agent {
	return &Agent{
		Name: "pi", Title: "pi", Command: "pi", Package: "@earendil-works/pi-coding-agent", Least: "0.70.0",
		Env:         map[string]string{"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"},
		Pass:        []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"},
		CA:          []string{"NODE_EXTRA_CA_CERTS"},
		Talks:       ".pi/agent/sessions",
		Credentials: []Credential{{Name: ".pi/agent/auth.json", Tokens: []string{"*.access", "*.refresh", "*.expires"}}},
		Settings:    []string{".pi/agent/settings.json", ".pi/agent/models.json"},
		// What begins with - or @ it takes for something else, wherever it stands.
		Argv:      Words{Guide: "--append-system-prompt", Resume: []string{"--continue"}, Headless: []string{"-p"}, Special: "-@"}.argv,
		Login:     []string{"pi"},
		LoginHelp: "type /login, then leave with /quit",
		Jail:      piJail,
	}
}
