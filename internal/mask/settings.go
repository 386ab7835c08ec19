package mask

import (
	"path"
	"strings"
	"sync"
)

// A Setting is a name by which a program takes orders: it runs, by itself or at a key, what a file or
// directory of that name says. Case does not count, as not all file systems tell the cases apart.
type Setting struct {
	Name string // in lower case; after an asterisk, the end of names
	Kind Kind
	// Taken says that a jail takes the name at the top of its context if it is not there.
	Taken bool
}

// A Kind is who takes the orders.
type Kind string

// The kinds.
const (
	Editor Kind = "editor"
	Agent  Kind = "agent"
	Hook   Kind = "hook"
	Shell  Kind = "shell"
)

// Settings are those names, each with where its program says so. Jails and direct workspaces keep
// what is there read-only, at any depth, and reviews report changes.
var Settings = []Setting{
	{".vscode", Editor, true},           // code.visualstudio.com/docs: tasks with runOn "folderOpen", settings that name programs
	{"*.code-workspace", Editor, false}, // the same, in multi-root workspaces
	{".idea", Editor, true},             // jetbrains.com/help/idea: startup tasks, run configurations
	{".fleet", Editor, true},            // jetbrains.com/help/fleet: run.json
	{".zed", Editor, true},              // zed.dev/docs: tasks.json, paths of language servers
	{".vs", Editor, false},              // learn.microsoft.com/visualstudio: tasks.vs.json, launch.vs.json
	{".devcontainer", Editor, true},     // containers.dev: initializeCommand runs on the host
	{".devcontainer.json", Editor, true},
	{".exrc", Editor, true}, // neovim.io/doc, 'exrc'
	{".nvimrc", Editor, true},
	{".nvim.lua", Editor, true},
	{".dir-locals.el", Editor, false}, // gnu.org/software/emacs/manual: eval in directory variables

	{".claude", Agent, true},         // code.claude.com/docs: hooks, commands, permissions
	{".mcp.json", Agent, true},       // the same: servers that are started
	{".codex", Agent, true},          // developers.openai.com/codex: config.toml with servers and hooks
	{".gemini", Agent, true},         // geminicli.com/docs: settings.json with servers and hooks
	{".opencode", Agent, true},       // opencode.ai/docs: plugins, tools
	{"opencode.json", Agent, true},   // the same: servers, formatters
	{"opencode.jsonc", Agent, true},  // the same
	{".pi", Agent, true},             // pi's README: extensions
	{".cursor", Agent, true},         // cursor.com/docs: hooks.json, mcp.json
	{".aider.conf.yml", Agent, true}, // aider.chat/docs: lint-cmd, test-cmd
	{".windsurf", Agent, true},       // docs.windsurf.com: hooks, workflows
	{".roo", Agent, true},            // docs.roocode.com: mcp.json
	{".qwen", Agent, true},           // Qwen Code's documentation: settings.json with servers
	{".kiro", Agent, true},           // kiro.dev/docs: hooks, mcp.json
	{".continue", Agent, true},       // docs.continue.dev: servers
	{"crush.json", Agent, true},      // Crush's README: servers, also of languages
	{".crush.json", Agent, true},     // the same

	{".husky", Hook, true},        // typicode.github.io/husky
	{".githooks", Hook, false},    // git-scm.com/docs/githooks: what core.hooksPath is often set to
	{".git-hooks", Hook, false},   // the same
	{"lefthook.yml", Hook, false}, // lefthook.dev
	{"lefthook.yaml", Hook, false},
	{".lefthook.yml", Hook, false}, // lefthook.dev
	{".lefthook.yaml", Hook, false},
	{"lefthook-local.yml", Hook, false}, // lefthook.dev
	{"lefthook-local.yaml", Hook, false},
	{".pre-commit-config.yaml", Hook, false}, // pre-commit.com
	{".overcommit.yml", Hook, false},         // overcommit's README

	{".envrc", Shell, true},        // direnv.net
	{".autoenv", Shell, false},     // autoenv's README
	{".autoenv.zsh", Shell, false}, // zsh-autoenv's README
}

var kinds = sync.OnceValue(func() map[string]Kind {
	all := map[string]Kind{}
	for _, s := range Settings {
		all[s.Name] = s.Kind
	}
	return all
})

// SettingOf is the kind of setting that a file or directory of some name is, or "".
func SettingOf(name string) Kind {
	name = strings.ToLower(name)
	if kind := kinds()[name]; kind != "" {
		return kind
	}
	return kinds()["*"+path.Ext(name)]
}
