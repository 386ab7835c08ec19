package agent

import "encoding/json"

func claude() *Agent {
	return &Agent{
		Name: "claude", Title: "Claude Code", Command: "claude", Package: "@anthropic-ai/claude-code", Least: "2.0.0",
		Bypass: []string{"--dangerously-skip-permissions"},
		Env: map[string]string{
			"IS_SANDBOX": "1", // as root it refuses to go without questions otherwise
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			"DISABLE_AUTOUPDATER":                      "1",
		},
		Pass: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
			"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
			"ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_OAUTH_TOKEN",
			"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS",
		},
		CA:          []string{"NODE_EXTRA_CA_CERTS"},
		Dir:         ".claude",
		DirVar:      claudeDirVar,
		Talks:       ".claude/projects",
		Credentials: []Credential{{Name: ".claude/.credentials.json", Tokens: []string{"claudeAiOauth.accessToken", "claudeAiOauth.refreshToken", "claudeAiOauth.expiresAt"}}},
		Settings:    []string{".claude.json", claudeSettings},
		Argv:        Words{Text: "--append-system-prompt", Resume: []string{"--continue"}, Headless: []string{"-p"}, Lists: true}.argv,
		Files:       claudeFiles,
		Login:       []string{"claude", "auth", "login"},
		LoginHelp:   "log in, then leave",
		Jail:        claudeJail,
	}
}

// claudeFiles answers the questions of its first start.
func claudeFiles(a *Agent, s Scene) []File {
	answers := map[string]any{
		"hasCompletedOnboarding":        true,
		"bypassPermissionsModeAccepted": true,
		"autoUpdates":                   false,
		"projects":                      map[string]any{s.Dir: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}
	// It knows a key that was approved by its end.
	if key := s.Variable("ANTHROPIC_API_KEY"); key != "" {
		answers["customApiKeyResponses"] = map[string]any{"approved": []any{key[max(0, len(key)-20):]}, "rejected": []any{}}
	}
	files := []File{{Name: ".claude.json", Merge: answers}}
	if s.Has(claudeSettings) {
		files = append(files, File{Name: claudeSettings, Merge: claudeHolds(a, s)})
	}
	return files
}

const (
	claudeDirVar   = "CLAUDE_CONFIG_DIR"
	claudeSettings = ".claude/settings.json"
)

// claudeHolds takes out of the user's settings what would undo ours: they count more than
// flags and variables do.
func claudeHolds(a *Agent, s Scene) map[string]any {
	env := map[string]any{}
	for name := range a.Env {
		env[name] = nil
	}
	for _, name := range a.CA {
		if s.Variable(name) != "" {
			env[name] = nil
		}
	}
	return map[string]any{
		"env": env,
		// What a user may have said outside, where there is no other wall.
		"permissions": map[string]any{"disableBypassPermissionsMode": nil, "ask": nil},
		"sandbox":     nil,
	}
}

// jsonText is a value as JSON, for settings of ours.
func jsonText(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // a value of ours
	}
	return append(b, '\n')
}
