package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/sandbox"
	"golang.org/x/sys/unix"
)

// A workspace without a repository must not get one that the sandbox wrote: its hooks
// and config would run when the user next types git there. So the sandbox is given a
// .git of its own, in its layers, where git init works and nothing lands outside. A
// mount needs something to lie on: for as long as a sandbox runs, there is an empty
// .git in the workspace, and a shared lock on the workspace says that it is needed.
// The last sandbox to leave takes it away.

// NeedsGit says whether a workspace will be given an empty .git.
func NeedsGit(w sandbox.Workspace) bool {
	if w.Mode != sandbox.WorkspaceDirect {
		return false
	}
	_, err := os.Lstat(filepath.Join(w.Path, ".git"))
	return os.IsNotExist(err)
}

// reserveGit makes the empty .git, and says whether there is one.
func (s *Supervisor) reserveGit() (private bool, err error) {
	sb := s.Sandbox
	if sb.Workspace.Mode != sandbox.WorkspaceDirect {
		return false, nil
	}
	git := filepath.Join(sb.Workspace.Path, ".git")
	if !sb.Ephemeral && sb.MadeGit {
		if err := sb.Owe(); err != nil {
			return false, err
		}
	}
	switch err := os.Mkdir(git, 0o755); {
	case err == nil:
	case errors.Is(err, unix.EEXIST):
		if !isEmpty(git) {
			return false, nil // a repository, which is protected as such
		}
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission) && !owned(sb.Workspace.Path):
		return false, nil // nobody can make one there, the sandbox neither
	default:
		// What we cannot do now, the sandbox may be able to do later.
		return false, hint.Wrap(fmt.Errorf("reserve the place of a repository: %w", err),
			"make %s writable, or use --workspace cow", sb.Workspace.Path)
	}
	if s.reserved, err = os.Open(sb.Workspace.Path); err != nil {
		return false, err
	}
	if err := unix.Flock(int(s.reserved.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return false, hint.Wrap(fmt.Errorf("lock the workspace %s: %w", sb.Workspace.Path, err), "another program has locked it; try again")
	}
	if !sb.MadeGit {
		// It lost its repository since it was made. Should we be killed before
		// this is written, an empty .git stays.
		sb.MadeGit = true
		if err := errors.Join(sb.Save(), sb.Owe()); err != nil {
			return false, err
		}
	}
	// Whoever was leaving when we came has taken it away by now, or not at all.
	if err := os.Mkdir(git, 0o755); err != nil && !os.IsExist(err) {
		return false, err
	}
	return true, os.MkdirAll(filepath.Join(sb.Layers(), "git"), 0o755)
}

// owned says whether a directory is the caller's, who can change its permissions.
func owned(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) != nil || int(st.Uid) == os.Getuid()
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// releaseGit takes the empty .git away if nobody else needs it.
func (s *Supervisor) releaseGit() {
	if s.reserved != nil {
		_ = unreserve(s.reserved)
		s.reserved.Close()
	}
	_ = s.Sandbox.Settle()
}

// unreserve removes an empty .git from a workspace that no sandbox is using.
func unreserve(workspace *os.File) error {
	if err := unix.Flock(int(workspace.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	// A directory with something in it, the user's by now, stays.
	_ = unix.Unlinkat(int(workspace.Fd()), ".git", unix.AT_REMOVEDIR)
	return nil
}

// Forget does what a supervisor that was killed could not do any more, for the sandbox
// in a folder. An error means that it should be tried again later.
func Forget(folder string) error {
	var r sandbox.Record
	b, err := os.ReadFile(filepath.Join(folder, "sandbox.json"))
	if err != nil || json.Unmarshal(b, &r) != nil {
		return nil // it was never complete, or is broken: nothing to go by
	}
	if l := r.Limits; l.Memory > 0 || l.Pids > 0 || l.CPUs > 0 {
		limits.Sweep(func(id string) bool { return id != r.ID })
	}
	if !r.MadeGit {
		return nil
	}
	w, err := os.Open(r.Workspace.Path)
	if err != nil {
		return nil // gone, and with it what was in it
	}
	defer w.Close()
	if err := unreserve(w); err != nil && !shared(filepath.Dir(folder), r.Workspace.Path) {
		// A process of the killed sandbox takes its time to die.
		return fmt.Errorf("the workspace %s is still in use: %w", r.Workspace.Path, err)
	}
	return nil
}

// shared says whether a running sandbox of the store is over the workspace.
func shared(store, workspace string) bool {
	s, err := sandbox.Open(store)
	if err != nil {
		return false
	}
	all, _ := s.List()
	for _, sb := range all {
		if sb.Workspace.Path == workspace && sb.Running() {
			return true
		}
	}
	return false
}
