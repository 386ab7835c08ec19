package mask

import (
	"strings"
	"testing"
)

func TestSettingOf(t *testing.T) {
	for name, want := range map[string]Kind{
		".vscode": Editor, ".VSCode": Editor, "mine.code-workspace": Editor, ".claude": Agent, ".husky": Hook, "lefthook.yaml": Hook, ".envrc": Shell,
		"": "", "vscode": "", ".envrc.local": "", "code-workspace": "", "x.envrc": "", "*": "",
	} {
		if got := SettingOf(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	for _, s := range Settings {
		if s.Name != strings.ToLower(s.Name) || strings.Contains(s.Name[1:], "*") || strings.Contains(s.Name, "/") {
			t.Errorf("%q can match nothing", s.Name)
		}
	}
}
