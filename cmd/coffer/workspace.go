package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
)

// workspaceHere is the current directory as a workspace.
func workspaceHere(mode string, force bool) (sandbox.Workspace, error) {
	switch mode {
	case sandbox.WorkspaceNone:
		return sandbox.Workspace{Mode: mode}, nil
	case sandbox.WorkspaceDirect, sandbox.WorkspaceCOW:
	default:
		return sandbox.Workspace{}, usagef("there is no workspace mode %q: want direct, cow or none", mode)
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return sandbox.Workspace{}, hint.Wrap(fmt.Errorf("find the current directory: %w", err), "change to a directory that exists")
	}
	if why := unsuitable(here, supervisor.Me().Home); why != "" {
		if here == "/" || !force {
			fix := "change to a project's directory, or insist with --force"
			if here == "/" {
				fix = "change to a project's directory"
			}
			return sandbox.Workspace{}, hint.New(fmt.Sprintf("%s cannot be a workspace: %s", here, why), fix)
		}
	}
	if repo := repositoryAbove(here); repo != "" && terminal.IsTerminal(2) {
		fmt.Fprintf(os.Stderr, "coffer: the repository of %s is not visible from a directory in it; start coffer there to have git inside\n", terminal.Escape(repo))
	}
	return sandbox.Workspace{Path: here, Mode: mode}, nil
}

// repositoryAbove finds the repository that a directory without one of its own is in.
func repositoryAbove(dir string) string {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return ""
	}
	for dir != "/" {
		dir = filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return ""
}

// Directories of the system: never what an agent should work on, with all below
// them, or only themselves.
var (
	systemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"}
	systemRoots = []string{"/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp"}
)

// unsuitable says why a directory should not be handed to a program, or nothing.
func unsuitable(dir, home string) string {
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	switch {
	case dir == "/":
		return "it is the whole machine"
	case dir == home:
		return "it is your home, with all your keys"
	case rootfs.Within(home, dir):
		return "your home is in it"
	case slices.Contains(systemRoots, dir):
		return "it belongs to the system"
	}
	for _, s := range systemTrees {
		if dir == s || strings.HasPrefix(dir, s+"/") {
			return "it belongs to the system"
		}
	}
	return ""
}
