package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// beginSetUp marks a sandbox as not set up: half a setup is none. done takes the mark away.
func beginSetUp(sb *sandbox.Sandbox) (done func(), err error) {
	if err := os.WriteFile(sb.SetupMark(), nil, 0o600); err != nil {
		return nil, fmt.Errorf("begin the setup: %w", err)
	}
	return func() { _ = os.Remove(sb.SetupMark()) }, nil
}

// refuseHalf refuses a sandbox that is not set up.
func refuseHalf(sb *sandbox.Sandbox) error {
	if _, err := os.Lstat(sb.SetupMark()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return ui.Error(fmt.Sprintf("sandbox %s is not set up: the command that makes it still works on that, or was killed", sb.Name),
		fmt.Sprintf("wait for it; or remove the sandbox with 'coffer rm --force %s', and make it again", sb.Name))
}
