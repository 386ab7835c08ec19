package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// perWorktree lets worktrees have a config of their own, as git-worktree(1) says it is
// to be done: what is about the main one only moves to that one's config.
func (r *Repository) perWorktree(ctx context.Context) error {
	if r.config["extensions.worktreeconfig"] == "true" {
		return nil
	}
	common, own := filepath.Join(r.Common, "config"), filepath.Join(r.Common, "config.worktree")
	for _, key := range []string{"core.bare", "core.worktree"} {
		if known := r.config[key]; known == "" || known == "false" {
			continue // no file says so
		}
		value, err := r.git().text(ctx, "config", "--file", common, "--get", key)
		if code(err) == 1 || err == nil && key == "core.bare" && value != "true" {
			continue
		}
		if err == nil {
			err = r.configure(ctx, "--file", own, key, value)
		}
		if err == nil {
			err = r.configure(ctx, "--file", common, "--unset-all", key)
		}
		if err != nil && code(err) != gitUnset {
			return fmt.Errorf("give worktrees a config of their own: %w", err)
		}
	}
	if err := r.configure(ctx, "--file", common, "extensions.worktreeConfig", "true"); err != nil {
		return fmt.Errorf("give worktrees a config of their own: %w", err)
	}
	return nil
}

// gitUnset is git config's exit code for what is not there to be removed: somebody who makes a
// worktree at the same time was quicker.
const gitUnset = 5

// configTries is how often a config is tried that another git holds the lock of, which it does for
// the time that it takes to write it: for more than five seconds. Git itself does not wait.
const configTries = 250

// configure has git write a config.
func (r *Repository) configure(ctx context.Context, args ...string) error {
	for try := 1; ; try++ {
		_, err := r.git().run(ctx, "", append([]string{"config"}, args...)...)
		var said *Error
		if !errors.As(err, &said) || !said.isConfigLocked() || try == configTries || !pause(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

// isConfigLocked says whether another git writes a config, or did when it was killed.
func (e *Error) isConfigLocked() bool {
	return strings.Contains(e.Said, "could not lock config file ") && strings.Contains(e.Said, ": File exists")
}
