package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// RememberAgent writes into the user's own file which agent to start when nothing is
// said. All else in the file stays as it is.
func (p Places) RememberAgent(name string) error {
	file := p.User
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // people keep their settings elsewhere and link them
	}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remember the agent: %w", err)
	}
	changed, ok := withAgent(data, name)
	if !ok {
		return ui.Error(fmt.Sprintf("%s has no place for the agent to be remembered", file), fmt.Sprintf("write agent = %q into its table [ai]", name))
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("remember the agent: %w", err)
	}
	if err := (safepath.File{Path: file, Mode: mode}).Write(changed); err != nil {
		return fmt.Errorf("remember the agent: %w", err)
	}
	return nil
}

// withAgent is a file with the agent in it. It is false when the result would not be
// what it is meant to be: then a person had better do it.
func withAgent(data []byte, name string) ([]byte, bool) {
	tree, problems := parse("config.toml", data)
	if len(problems) > 0 {
		return nil, false
	}
	entry := fmt.Sprintf("agent = %s\n", tomlString(name))
	var out []byte
	lines := bytes.SplitAfter(data, []byte("\n"))
	switch ai := tree.get("ai"); {
	case ai == nil:
		out = bytes.Clone(data)
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		if len(out) > 0 {
			out = append(out, '\n')
		}
		out = append(out, "[ai]\n"+entry...)
	case ai.get("agent") != nil && ai.get("agent").key.Line <= len(lines):
		n := ai.get("agent").key.Line - 1
		if !strings.HasPrefix(strings.TrimSpace(string(lines[n])), "agent") {
			return nil, false
		}
		lines[n] = []byte(entry)
		out = bytes.Join(lines, nil)
	case ai.header && ai.key.Line <= len(lines):
		n := ai.key.Line - 1
		head := lines[n]
		if !bytes.HasSuffix(head, []byte("\n")) {
			head = append(bytes.Clone(head), '\n')
		}
		lines[n] = append(bytes.Clone(head), entry...)
		out = bytes.Join(lines, nil)
	default:
		return nil, false
	}
	tree, problems = parse("config.toml", out)
	if len(problems) > 0 {
		return nil, false
	}
	if got := tree.get("ai", "agent"); got == nil || got.text != name {
		return nil, false
	}
	return out, true
}
