package turn

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mcp is a server of the user's that says that it was started, and fails.
const mcp = `touch ~/mcp-ran; exit 1`

// own are settings of a user's who is careful outside: questions on, another authority
// to trust, servers and words of his own. change is how the agent is told to change its
// settings.
type own struct {
	files  map[string]string
	change []string
	words  string // that the model must hear
	quiet  bool   // it starts no servers of the user's
}

var owns = map[string]own{
	"pi": {files: map[string]string{".pi/agent/settings.json": `{"theme": "light", "defaultThinkingLevel": "off"}`}, quiet: true},
	"claude": {
		files: map[string]string{
			".claude.json": `{"theme": "light", "mcpServers": {"mine": {"command": "sh", "args": ["-c", "` + mcp + `"]}}}`,
			".claude/settings.json": `{"permissions": {"defaultMode": "plan", "ask": ["Bash"], "disableBypassPermissionsMode": "disable"},
				"env": {"IS_SANDBOX": "", "DISABLE_AUTOUPDATER": "", "NODE_EXTRA_CA_CERTS": "/nowhere.pem", "MINE": "kept"}, "sandbox": {"enabled": true, "failIfUnavailable": true}}`,
		},
		change: []string{"mcp", "add", "-s", "user", "more", "--", "false"},
	},
	"codex": {
		files: map[string]string{".codex/config.toml": "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\ndeveloper_instructions = \"My own words.\"\n" +
			"[mcp_servers.mine]\ncommand = \"sh\"\nargs = [\"-c\", \"" + mcp + "\"]\n[analytics]\nenabled = true\n"},
		change: []string{"mcp", "add", "more", "--", "false"},
		words:  "My own words.",
	},
	"gemini": {
		files: map[string]string{".gemini/settings.json": `{
			// mine
			"security": {"disableYoloMode": true, "toolSandboxing": true, "auth": {"selectedType": "oauth-personal"}},
			"privacy": {"usageStatisticsEnabled": true}, "tools": {"sandbox": "docker"}, "context": {"fileName": "MINE.md"},
			"mcpServers": {"mine": {"command": "sh", "args": ["-c", "` + mcp + `"]}},
		}`},
		change: []string{"mcp", "add", "-s", "user", "more", "false"},
	},
	"opencode": {
		files: map[string]string{".config/opencode/opencode.json": `{
			// mine
			"permission": {"bash": "ask", "edit": "deny"}, "autoupdate": true, "instructions": ["~/.mine.md"],
			"mcp": {"mine": {"type": "local", "command": ["sh", "-c", "` + mcp + `"]}},
		}`, ".mine.md": "My own words.\n"},
		words: "My own words.",
	},
}

// Settings of the user's hold inside, and so do ours: nothing is asked, the authority is
// the one that coffer gives, the user's servers are started; and the agent can write to
// its settings, which the user's are not changed by.
func TestRealSettings(t *testing.T) {
	eachReal(t, func(s *stage, a client) {
		mine := owns[a.name]
		var list []string
		for name, text := range mine.files {
			s.put(filepath.Join(s.Home, name), []byte(text), 0o600)
			list = append(list, strconv.Quote("~/"+name))
		}
		slices.Sort(list)
		config := filepath.Join(s.Home, ".config/coffer/config.toml")
		was, err := os.ReadFile(config)
		s.must(err)
		s.put(config, append([]byte("home.files = ["+strings.Join(list, ", ")+"]\n"), was...), 0o644)
		s.own(s.Home)

		turn(s, a.name, a.hosts, a.extra)
		sandbox := strings.TrimSpace(s.run("ls", "-q"))
		home := filepath.Join(s.Home, ".local/share/coffer/sandboxes", sandbox, "home")
		if !mine.quiet && !exists(filepath.Join(home, "mcp-ran")) {
			t.Error("the user's server was not started")
		}
		if !s.model.Told("RUN: echo hello", mine.words) {
			t.Errorf("the model was not told %q", mine.words)
		}
		if mine.change != nil {
			program := filepath.Join(os.Getenv("COFFER_AGENTS"), a.name, "node_modules/.bin", a.name)
			s.run(append([]string{"exec", "-m", "one", "--", program}, mine.change...)...)
			s.run("stop", "one")
			s.must(os.Remove(filepath.Join(home, "mcp-ran")))
			s.run(append([]string{"ai", "-m", "one", "RUN: true", "--"}, a.extra...)...)
			if !exists(filepath.Join(home, "mcp-ran")) {
				t.Error("the user's server was not started again")
			}
			if list := s.run("exec", "-m", "one", "--", "sh", "-c", "cat ~/.claude.json ~/.codex/config.toml ~/.gemini/settings.json 2>/dev/null; true"); !strings.Contains(list, "more") {
				t.Errorf("what the agent has changed is gone:\n%s", list)
			}
		}
		for name, text := range mine.files {
			if is, err := os.ReadFile(filepath.Join(s.Home, name)); err != nil || string(is) != text {
				t.Errorf("the user's own ~/%s was changed: %v\n%s", name, err, is)
			}
		}
	})
}
