package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// unseen adds a hint to the error about a program that is not in the sandbox.
func unseen(err error, sb *sandbox.Sandbox, argv []string) error {
	var failure *wire.Failure
	switch {
	case !errors.As(err, &failure) || len(argv) == 0 || !strings.HasSuffix(failure.Message, "command not found in the sandbox"):
		return err
	case strings.Contains(argv[0], " ") && len(argv) == 1:
		return ui.Hint(err, "a line for the shell needs one: -- sh -c '%s'", strings.ReplaceAll(argv[0], "'", `'\''`))
	case !sb.Image.None():
		return ui.Hint(err, "the image %s does not have it; choose another, or install it inside as root, in a sandbox that stays", sb.Image.Ref)
	}
	path, missing := exec.LookPath(argv[0])
	switch {
	case missing != nil:
		return err
	case strings.Contains(argv[0], "/") && sb.Workspace.Mode == sandbox.WorkspaceTree:
		return ui.Hint(err, "a worktree has only what is committed; copy %s to where 'coffer cd %s' leads", path, sb.Name)
	default:
		return ui.Hint(err, "the sandbox does not see %s; name its directory in [mounts] of your config and make a new sandbox, or try 'coffer jail -- %s'", path, argv[0])
	}
}

// isBrowser says whether a command starts a Chromium that makes a sandbox of its own.
func isBrowser(argv []string) bool {
	return len(argv) > 0 && !slices.Contains(argv, "--no-sandbox") && slices.ContainsFunc(argv, func(word string) bool {
		name := filepath.Base(word)
		return strings.HasPrefix(name, "chrom") || strings.HasPrefix(name, "google-chrome") || name == "playwright" || name == "puppeteer"
	})
}
