package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// unseen adds to the error about a program that is not in the sandbox where it is outside.
// Scripts in the directory above, and programs in ~/bin, are what people miss first.
func unseen(err error, sb *sandbox.Sandbox, argv []string) error {
	var failure *wire.Failure
	if sb == nil || !errors.As(err, &failure) || !strings.HasSuffix(failure.Message, "command not found in the sandbox") || len(argv) == 0 {
		return err
	}
	if isSandbox(argv[0]) {
		return hint.Wrap(err, "%s is a sandbox; run a command in it with 'coffer exec -m %s -- COMMAND'", argv[0], argv[0])
	}
	if !sb.Image.None() {
		return hint.Wrap(err, "the image %s does not have it; choose another, or install it inside as root, in a sandbox that stays", sb.Image.Ref)
	}
	path, missing := outside(argv[0])
	if missing != nil || sb.Workspace.Path != "" && rootfs.Within(path, sb.Workspace.Path) {
		return err // one that is hidden, or removed from a copy, is where it should be
	}
	named := strings.Contains(argv[0], "/")
	if sb.Ephemeral || sb.Once {
		if named {
			return hint.Wrap(err, "%s is outside of what the sandbox sees; start coffer in a directory above it, or name that in [mounts] of your config", path)
		}
		return hint.Wrap(err, "yours is %s, which the sandbox does not see; name its directory in [mounts] of your config, or try 'coffer jail -- %s'", path, argv[0])
	}
	// What one that stays sees was decided when it was made.
	switch b, broken := gitbridge.Open(sb.Dir()); {
	case named && sb.Workspace.Mode == sandbox.WorkspaceTree && broken == nil && rootfs.Within(path, filepath.Clean(strings.TrimSuffix(b.Start, b.Prefix))):
		return hint.Wrap(err, "%s is not in the worktree of sandbox %s; copy it there, to the directory that 'coffer cd %s' prints", path, sb.Name, sb.Name)
	case named:
		return hint.Wrap(err, "%s is outside of what sandbox %s sees; make a sandbox in a directory above it, or one that has it in [mounts] of your config", path, sb.Name)
	}
	return hint.Wrap(err, "yours is %s, which sandbox %s does not see; make one that has its directory in [mounts] of your config, or try 'coffer jail -- %s'", path, sb.Name, argv[0])
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
