package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What the user changes comes in, what the agent has changed stays.
func TestLay(t *testing.T) {
	for _, c := range []struct{ name, was, is, have, want string }{
		{"the first time", "", `{"a": 1} // mine`, "", `{"a": 1} // mine`},
		{"nothing is new", `{"a":1}`, `{"a":1}`, `{"b":2}`, `{"b":2}`},
		{"the agent removed it", `{"a":1}`, `{"a":1}`, "", `{"a":1}`},
		{"the agent changed nothing", `{"a":1}`, `{"a": 2,}`, `{"a":1}`, `{"a": 2,}`},
		{"both changed", `{"a":1,"b":1,"c":[1]}`, `{"a":2,"b":1,"c":[2]}`, `{"a":1,"b":3,"c":[1],"d":4}`, `{"a":2,"b":3,"c":[2],"d":4}`},
		{"both changed the same", `{"a":1}`, `{"a":2}`, `{"a":3}`, `{"a":2}`},
		{"deep down", `{"mcp":{"x":{"args":["1"]}}}`, `{"mcp":{"x":{"args":["2"]},"y":{}}}`, `{"mcp":{"x":{"args":["1"],"on":true},"z":{}}}`, `{"mcp":{"x":{"args":["2"],"on":true},"y":{},"z":{}}}`},
		{"the user removed", `{"a":1,"b":1,"c":1}`, `{"c":1}`, `{"a":1,"b":2,"c":1,"n":12345678901234567890}`, `{"b":2,"c":1,"n":12345678901234567890}`},
		{"an object became a word", `{"a":{"b":1}}`, `{"a":"x"}`, `{"a":{"b":1,"c":2},"d":1}`, `{"a":"x","d":1}`},
		{"a word became an object", `{"a":"x"}`, `{"a":{"b":1}}`, `{"a":"x","d":1}`, `{"a":{"b":1},"d":1}`},
		{"into one that is there", "", `{"a":{"b":1}}`, `{"a":{"c":2}}`, `{"a":{"b":1,"c":2}}`},
		{"no JSON", "x = 1\n", "x = 2\n", "x = 1\ny = 1\n", "x = 2\n"},
		{"no JSON any more", `{"a":1}`, "{", `{"a":1,"b":2}`, "{"},
		{"the user has it no more", `{"a":1}`, "", `{"a":1,"b":2}`, `{"b":2}`},
		{"the user has it no more, as it was", `{"a":1}`, "", `{"a":1}`, ""},
		{"the user has it no more, no JSON", "x = 1\n", "", "x = 1\ny = 1\n", ""},
	} {
		h, dir := home(t)
		file := filepath.Join(dir, "d/x")
		if c.have != "" {
			put(t, file, c.have)
		}
		some := func(s string) []byte {
			if s == "" {
				return nil
			}
			return []byte(s)
		}
		if err := h.Lay("d/x", some(c.was), some(c.is)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got, _ := os.ReadFile(file)
		if a, b := object(some(string(got))), object(some(c.want)); string(got) != c.want && (a == nil || !reflect.DeepEqual(a, b)) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What would undo coffer's settings is taken out of the user's, and nothing else.
func TestSettingsHold(t *testing.T) {
	scene := Scene{Home: "/home/ada", Dir: "/w", Guide: "/g", Text: "here", Variable: func(name string) string {
		if name == "NODE_EXTRA_CA_CERTS" {
			return "/ours.pem"
		}
		return ""
	}}
	for _, c := range []struct{ agent, file, is, want string }{
		{"claude", ".claude/settings.json",
			`{"model":"opus","permissions":{"deny":["Read(./.env)"],"ask":["Bash"],"disableBypassPermissionsMode":"disable"},"env":{"NODE_EXTRA_CA_CERTS":"/x","IS_SANDBOX":"0","A":"b"},"sandbox":{"enabled":true}}`,
			`{"model":"opus","permissions":{"deny":["Read(./.env)"]},"env":{"A":"b"}}`},
		{"gemini", ".gemini/settings.json", `{"security":{"disableYoloMode":true,"x":1},"context":{"fileName":"MINE.md"},"mcpServers":{"m":{}}, /* mine */}`,
			`{"security":{"disableYoloMode":false,"toolSandboxing":false,"folderTrust":{"enabled":false},"x":1},"context":{"fileName":["MINE.md","GEMINI.md"],"includeDirectories":["/home/ada/.local/share/coffer/gemini"],
			"loadMemoryFromIncludeDirectories":true},"mcpServers":{"m":{}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false}}`},
	} {
		h, dir := home(t)
		put(t, filepath.Join(dir, c.file), c.is)
		scene.Has = h.Has
		a := Find(Known(), c.agent)
		for range 2 {
			for _, f := range a.Files(a, scene) {
				if err := h.Put(f); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := read(t, filepath.Join(dir, c.file)); !reflect.DeepEqual(object([]byte(got)), object([]byte(c.want))) {
			t.Errorf("%s has\n%s, want\n%s", c.agent, got, c.want)
		}
	}
	// A sandbox that was given no settings gets none.
	h, dir := home(t)
	scene.Has = h.Has
	a := claude()
	for _, f := range a.Files(a, scene) {
		if err := h.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, claudeSettings)); err == nil {
		t.Error("settings were made")
	}
}

// Instructions of the user's own stand beside ours.
func TestOwnInstructions(t *testing.T) {
	a := codex()
	argv := a.Argv(a, Turn{Dir: "/w", Text: "Ours.", Read: func(string) ([]byte, error) {
		return []byte("developer_instructions = '''My \"own\".'''\n[x]\ny = 1\n"), nil
	}})
	if line := strings.Join(argv, " "); !strings.Contains(line, `developer_instructions="Ours.\nMy \"own\"."`) {
		t.Error(line)
	}
}

// Files that programs inside have written are read by the host.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,2]}}`), []byte(`{"a":1}`), []byte(`{"a":{}}`))
	f.Add([]byte("developer_instructions = \"x\""), []byte(`{`), []byte(``))
	f.Fuzz(func(t *testing.T, have, was, is []byte) {
		codexWords(Turn{Read: func(string) ([]byte, error) { return have, nil }})
		now, then, next := object(have), object(was), object(is)
		if merged := follow(now, then, next); merged != nil {
			if _, err := json.Marshal(merged); err != nil {
				t.Error(err)
			}
			lay(merged, map[string]any{"a": map[string]any{"b": []any{"c"}, "d": nil}})
		}
	})
}
