package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// ownRepository says whether programs have made a repository where there was none, and
// committed to it. It is in the sandbox alone, and goes with it. Programs can write there.
func ownRepository(sb *sandbox.Sandbox) bool {
	if !sb.MadeGit {
		return false
	}
	root, err := os.OpenRoot(filepath.Join(sb.Layers(), "git"))
	if err != nil {
		return false
	}
	defer root.Close()
	if _, err := root.Lstat("packed-refs"); err == nil {
		return true
	}
	heads, err := root.OpenFile("refs/heads", os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer heads.Close()
	names, _ := heads.Readdirnames(1)
	return len(names) > 0
}

// losesRepository says that it would be lost.
func losesRepository(sb *sandbox.Sandbox) error {
	if !ownRepository(sb) {
		return nil
	}
	return ui.Error(fmt.Sprintf("sandbox %s has a repository that was made inside, and commits that are nowhere else", sb.Name),
		fmt.Sprintf("take them with 'coffer exec -m %s -- git bundle create commits.bundle --all', or remove it all the same with --force", sb.Name))
}

// sayRepository tells of one that goes with a sandbox that was there for one run.
func sayRepository(sb *sandbox.Sandbox) {
	if ownRepository(sb) {
		fmt.Fprintln(os.Stderr, "coffer: the repository that was made inside is gone with its commits, the files stay; to have one, 'git init' first")
	}
}
