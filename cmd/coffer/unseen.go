package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// unseen adds a hint to the error about a program that is not in the sandbox.
func unseen(err error, sb *sandbox.Sandbox, argv []string) error {
	var failure *wire.Failure
	if sb == nil || !errors.As(err, &failure) || !strings.HasSuffix(failure.Message, "command not found in the sandbox") || len(argv) == 0 {
		return err
	}
	name := argv[0]
	switch path, missing := outside(name); {
	case strings.Contains(name, " ") && len(argv) == 1:
		return ui.Hint(err, "a line for the shell needs one: -- sh -c '%s'", strings.ReplaceAll(name, "'", `'\''`))
	case isSandbox(name):
		return ui.Hint(err, "%s is a sandbox; run a command in it with 'coffer exec -m %s -- COMMAND'", name, name)
	case !sb.Image.None():
		return ui.Hint(err, "the image %s does not have it; choose another, or install it inside as root, in a sandbox that stays", sb.Image.Ref)
	case missing == nil && strings.Contains(name, "/") && sb.Workspace.Mode == sandbox.WorkspaceTree:
		return ui.Hint(err, "a worktree has only what is committed; copy %s to where 'coffer cd %s' leads", path, sb.Name)
	case missing == nil && (sb.Workspace.Path == "" || !safepath.Within(path, sb.Workspace.Path)):
		return ui.Hint(err, "the sandbox does not see %s; name its directory in [mounts] of your config and make a new sandbox, or try 'coffer jail -- %s'", path, name)
	}
	return err
}

// isBrowser says whether a command starts a Chromium that makes a sandbox of its own.
func isBrowser(argv []string) bool {
	return len(argv) > 0 && !slices.Contains(argv, "--no-sandbox") && slices.ContainsFunc(argv, func(word string) bool {
		name := filepath.Base(word)
		return strings.HasPrefix(name, "chrom") || strings.HasPrefix(name, "google-chrome") || name == "playwright" || name == "puppeteer"
	})
}

// isSandbox says whether a word is all of a sandbox's name, or its id.
func isSandbox(word string) bool {
	store, err := openStore()
	if err != nil {
		return false
	}
	sb, err := store.Find(word)
	return err == nil && (word == sb.Name || word == sb.ID)
}

// outside finds a program of the user's as a shell would, in a directory without links.
func outside(name string) (path string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", exec.ErrNotFound
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}
