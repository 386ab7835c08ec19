package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// RememberAgent adds to the user's own file which agent to start when nothing is said.
func (p Places) RememberAgent(name string) error {
	file := p.User
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // people keep their settings elsewhere and link them
	}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remember the agent: %w", err)
	}
	tree, _ := parse(file, data, &Config{})
	if tree == nil || tree.get("ai") != nil {
		return ui.Error(fmt.Sprintf("%s has a table [ai] already, or cannot be read", file), fmt.Sprintf("write agent = %q into its table [ai]", name))
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	if data = bytes.TrimRight(data, "\n"); len(data) > 0 {
		data = append(data, "\n\n"...)
	}
	data = fmt.Appendf(data, "[ai]\nagent = %s\n", tomlString(name))
	if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
		err = safepath.File{Path: file, Mode: mode}.Write(data)
	}
	if err != nil {
		return fmt.Errorf("remember the agent: %w", err)
	}
	return nil
}
