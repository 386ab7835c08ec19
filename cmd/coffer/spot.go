package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// spot is the current directory, by which a sandbox is chosen when none is named.
type spot struct {
	dir    string // without symbolic links
	top    string // of the repository there, or ""
	common string // the git directory of the repository there, if that can be told
}

// currentDir is the current directory, without symbolic links.
func currentDir() (string, error) {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return "", ui.Hint(fmt.Errorf("find the current directory: %w", err), "change to a directory that exists")
	}
	return here, nil
}

func spotHere() (s spot, err error) {
	if s.dir, err = currentDir(); err != nil {
		return s, err
	}
	s.top = repositoryOf(s.dir)
	if s.top != "" && rootfs.IsGitDir(s.top) {
		s.common = s.top
	} else if s.top != "" {
		// Where the two ends do not name each other it stays unknown: somebody in a sandbox
		// may have written that, to be taken for another repository.
		if r, err := rootfs.FindRepository(s.top); err == nil {
			s.common = r.Common
		}
	}
	return s, nil
}

// in says whether a sandbox works on this very place, or on the repository that it is in.
func (s spot) in(sb *sandbox.Sandbox) bool {
	path := sb.Workspace.Path
	return path != "" && (path == s.dir || path == s.top) || s.ownedBy(sb)
}

// below says whether this place is further down in what a sandbox works on.
func (s spot) below(sb *sandbox.Sandbox) bool {
	return sb.Workspace.Path != "" && safepath.Within(s.dir, sb.Workspace.Path)
}

// ownedBy says whether this place is in a worktree that was made for a sandbox.
func (s spot) ownedBy(sb *sandbox.Sandbox) bool {
	w := sb.Workspace
	return w.Mode == sandbox.WorkspaceTree && (s.dir == w.Path || safepath.Within(s.dir, w.Path)) || includedIn(sb, s.dir) != ""
}

// near says whether a sandbox has a worktree of the repository that this place is in,
// wherever in it the sandbox was made.
func (s spot) near(sb *sandbox.Sandbox) bool {
	if sb.Workspace.Mode != sandbox.WorkspaceTree {
		return false
	}
	b, err := git.Open(sb.Dir())
	return err == nil && (b.Start == s.dir || s.common != "" && b.Common == s.common)
}

// about says whether a sandbox works on the repository that this place is in, on this directory or
// on one above it.
func (s spot) about(sb *sandbox.Sandbox) bool {
	return s.in(sb) || s.below(sb) || s.near(sb) || s.top != "" && safepath.Within(sb.Workspace.Path, s.top)
}

// including is the repository that this place is in, if a sandbox includes it.
func (s spot) including(sb *sandbox.Sandbox) *git.Bridge {
	for _, b := range git.Included(sb.Dir()) {
		if b.Common == s.common {
			return b
		}
	}
	return nil
}
