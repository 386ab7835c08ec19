package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/forward"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// A workspace without a repository must not get one that the sandbox wrote: its hooks
// and config would run when the user next types git there. So the sandbox is given a
// .git of its own, in its layers, where git init works and nothing lands outside. A
// mount needs something to lie on: for as long as a sandbox runs, there is an empty
// .git in the workspace, and a shared lock on it says that it is needed. The last
// sandbox to leave takes it away.

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
	if rootfs.IsGitDir(sb.Workspace.Path) {
		return false, nil // nothing starts there, and nothing is made
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
		return false, ui.Hint(fmt.Errorf("reserve the place of a repository: %w", err),
			"make %s writable, or use --workspace cow", sb.Workspace.Path)
	}
	if s.reserved, err = holdEmpty(git); err != nil {
		return false, ui.Hint(fmt.Errorf("reserve %s: %w", git, err), "another program keeps it locked; try again")
	}
	if !sb.MadeGit {
		// It lost its repository since it was made. Should we be killed before
		// this is written, an empty .git stays.
		sb.MadeGit = true
		if err := errors.Join(sb.Save(), sb.Owe()); err != nil {
			return false, err
		}
	}
	return true, os.MkdirAll(filepath.Join(sb.Layers(), "git"), 0o755)
}

// holdEmpty takes a shared lock on an empty directory, making it if need be: somebody
// may be taking it away this very moment.
func holdEmpty(dir string) (*os.File, error) {
	err := error(unix.EBUSY)
	for range 200 {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, err
		}
		var f *os.File
		if f, err = lockDir(dir, unix.LOCK_SH); err == nil {
			return f, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, err
}

// lockDir locks the directory that has a name now.
func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	have, err := f.Stat()
	if err == nil {
		var is os.FileInfo
		if is, err = os.Lstat(dir); err == nil && !os.SameFile(have, is) {
			err = unix.ESTALE
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
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
		s.reserved.Close()
		_ = unreserve(s.Sandbox.Workspace.Path)
	}
	_ = s.Sandbox.Settle()
}

// unreserve removes an empty .git from a workspace in which no sandbox needs it.
func unreserve(workspace string) error {
	git := filepath.Join(workspace, ".git")
	f, err := lockDir(git, unix.LOCK_EX)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return err
	case err != nil:
		return nil // gone, or not a directory of ours
	}
	defer f.Close()
	// A directory with something in it, the user's by now, stays.
	_ = unix.Rmdir(git)
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
	forward.Forget(folder, r)
	if !r.MadeGit {
		return nil
	}
	if err := unreserve(r.Workspace.Path); err != nil && !shared(filepath.Dir(folder), r.Workspace.Path) {
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
