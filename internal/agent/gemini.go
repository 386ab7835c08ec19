package agent

func gemini() *Agent {
	return &Agent{
		Name: "gemini", Title: "Gemini CLI", Command: "gemini", Package: "@google/gemini-cli", Least: "0.20.0",
		Bypass: []string{"--yolo"},
		Env: map[string]string{
			"GEMINI_CLI_TRUST_WORKSPACE": "true", // or it does not go without questions
			"NO_BROWSER":                 "true", // there is none inside: it shows the address
		},
		Pass: []string{
			"GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT",
			"GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI",
		},
		CA:    []string{"NODE_EXTRA_CA_CERTS"},
		Talks: ".gemini/tmp", TalkIn: "chats",
		Credentials: []Credential{
			{Name: ".gemini/oauth_creds.json", Tokens: []string{"access_token", "refresh_token", "id_token", "expiry_date"}},
			{Name: ".gemini/google_accounts.json", Same: []string{"active"}, Optional: true},
		},
		Settings:  []string{".gemini/settings.json"},
		Argv:      Words{Resume: []string{"--resume", "latest"}, HeadlessIn: "--prompt=", PromptIn: "--prompt-interactive="}.argv,
		Files:     geminiFiles,
		Login:     []string{"gemini"},
		LoginHelp: "choose how to log in, then leave with /quit",
		Jail:      geminiJail,
	}
}

// geminiGuide is a directory that it is told to look into: it reads files called GEMINI.md
// only.
const geminiGuide = Managed + "/gemini"

// geminiFiles are settings in its home, beside the user's. Settings of the system would
// count more, but it takes them only from directories of root's.
func geminiFiles(_ *Agent, s Scene) []File {
	security := map[string]any{
		"folderTrust": map[string]any{"enabled": false},
		// What a user may have said outside, where there is no other wall.
		"disableYoloMode": false, "toolSandboxing": false,
	}
	switch {
	case s.Has(".gemini/oauth_creds.json"):
		security["auth"] = map[string]any{"selectedType": "oauth-personal"}
	case s.Variable("GEMINI_API_KEY") != "":
		security["auth"] = map[string]any{"selectedType": "gemini-api-key"}
	case s.Variable("GOOGLE_GENAI_USE_VERTEXAI") != "":
		security["auth"] = map[string]any{"selectedType": "vertex-ai"}
	}
	return []File{
		{Name: geminiGuide + "/GEMINI.md", Content: []byte(s.Text)},
		{Name: ".gemini/settings.json", Merge: map[string]any{
			"privacy": map[string]any{"usageStatisticsEnabled": false},
			"general": map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
			"context": map[string]any{
				"includeDirectories": []any{s.Home + "/" + geminiGuide}, "loadMemoryFromIncludeDirectories": true,
				"fileName": []any{"GEMINI.md"},
			},
			"tools":    map[string]any{"sandbox": nil},
			"security": security,
		}},
	}
}
