package agent

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

const (
	codexDirVar   = "CODEX_HOME"
	codexSettings = ".codex/config.toml"
)

func codex() *Agent {
	return &Agent{
		Name: "codex", Title: "Codex", Command: "codex", Package: "@openai/codex", Least: "0.160.0",
		Bypass: []string{"--dangerously-bypass-approvals-and-sandbox"},
		Pass: []string{
			"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_API_KEY",
		},
		CA:     []string{"CODEX_CA_CERTIFICATE"},
		Dir:    ".codex",
		DirVar: codexDirVar,
		Talks:  ".codex/sessions",
		Credentials: []Credential{{
			Name: ".codex/auth.json", Tokens: []string{"tokens.id_token", "tokens.access_token", "tokens.refresh_token", "last_refresh"},
			Same: []string{"auth_mode", "tokens.account_id", "OPENAI_API_KEY"},
		}},
		Settings:   []string{codexSettings},
		Argv:       codexArgv,
		Files:      codexFiles,
		Login:      []string{"codex", "-c", "cli_auth_credentials_store=file", "login"},
		LoginPorts: []int{1455},
		LoginHelp:  "open the address in your browser",
		Jail:       codexJail,
	}
}

// codexFiles is the key of who has no login: its full-screen interface reads keys from
// that file only, and asks who has none to log in.
func codexFiles(_ *Agent, s Scene) []File {
	const name = ".codex/auth.json"
	key := s.Variable("CODEX_API_KEY")
	if key == "" {
		key = s.Variable("OPENAI_API_KEY")
	}
	if key == "" || s.Has(name) {
		return nil
	}
	return []File{{Name: name, Content: jsonText(map[string]any{"auth_mode": "apikey", "OPENAI_API_KEY": key})}}
}

// noDaemon keeps its full-screen interface from leaving a server behind, for which it
// would copy all of itself into every home.
const noDaemon = "--no-daemon"

func codexArgv(a *Agent, t Turn) []string {
	args := []string{a.Command}
	switch {
	case t.Headless:
		args = append(args, "exec")
	case t.Resume:
		args = append(args, "resume", "--last", noDaemon)
	default:
		args = append(args, noDaemon)
	}
	// Its credentials are to be a file, and nothing but the model is asked.
	set := [][2]string{
		{"cli_auth_credentials_store", "file"}, {"check_for_update_on_startup", "false"},
		{"analytics.enabled", "false"}, {"features.plugins", "false"},
		// As one value: in a name it takes every dot, also one in quotes, for a divider.
		{"projects", "{" + tomlText(t.Dir) + `={trust_level="trusted"}}`},
	}
	if t.Text != "" {
		set = append(set, [2]string{"developer_instructions", tomlText(t.Text + codexWords(t))})
	}
	for _, s := range set {
		args = append(args, "-c", s[0]+"="+s[1])
	}
	args = append(args, a.Bypass...)
	const inAnyPlace = "--skip-git-repo-check"
	switch {
	case !t.Headless:
		args = append(args, t.Extra...)
	case slices.Contains(t.Extra, "--"): // after which nothing is a flag
		args = append(append(args, inAnyPlace), t.Extra...)
	default:
		// It comes last so that no flag of the user's takes the word that follows.
		args = append(append(args, t.Extra...), inAnyPlace)
	}
	if t.Headless && t.Resume {
		args = append(args, "resume", "--last")
	}
	return wordsAfter(t.Extra, args, t.Prompt)
}

// codexWords are instructions of the user's own, after an empty line: ours would take their place.
func codexWords(t Turn) string {
	var c struct {
		Words string `toml:"developer_instructions"`
	}
	if t.Read == nil {
		return ""
	}
	if data, err := t.Read(codexSettings); err != nil || toml.Unmarshal(data, &c) != nil || c.Words == "" {
		return ""
	}
	return "\n" + c.Words
}

// tomlText is a text as TOML writes it: as JSON does, but for the delete character.
func tomlText(s string) string {
	return strings.ReplaceAll(strings.TrimSuffix(string(jsonText(s)), "\n"), "\x7f", `\u007f`)
}
