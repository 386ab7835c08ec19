package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Bridge joins a sandbox's git directory with the host's.
type Bridge struct {
	State
	dir   string // the sandbox's folder
	begun bool   // the user's repository has refs of ours
	shown shownRefs

	tooMuch string // what the refs inside looked like when there was too much to fetch
	Left    Left   // set by [Bridge.Forget]

	cameOut []string // branches that came out of a directory of the user's
	cameBy  []string // stashes and tags that came over

	mu    sync.Mutex
	ready string // the branch, if commits came out on it and no other is checked out inside
	seen  seen
}

// seen is what the refs on both sides looked like at the last sync, and its notes, which
// hold for as long as nothing changes.
type seen struct {
	Inside  string   `json:"inside"`
	Outside string   `json:"outside"`
	Notes   []string `json:"notes,omitempty"`
	once    []string // further notes, which are news
}

func (s *seen) all() []string { return append(slices.Clone(s.Notes), s.once...) }

const (
	stateName = "git.json"
	seenName  = "git.seen"
	// pointerName is the file that lies over the tree's .git inside.
	pointerName = "gitfile"
	maxState    = 1 << 20
)

// Open reads the bridge of the sandbox in a folder. Without one, the error is
// fs.ErrNotExist.
func Open(dir string) (*Bridge, error) {
	b, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	bridge := &Bridge{dir: dir}
	if len(b) > maxState {
		return nil, fmt.Errorf("%s is too large", filepath.Join(dir, stateName))
	}
	if err := json.Unmarshal(b, &bridge.State); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, stateName), err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, seenName)); err == nil {
		_ = json.Unmarshal(data, &bridge.seen) // without it, the next sync looks at everything
	}
	return bridge, nil
}

func (b *Bridge) save() error { return put(filepath.Join(b.dir, stateName), &b.State) }

// remember notes the end of a sync.
func (b *Bridge) remember(inside, outside string, notes, once []string) error {
	now := seen{Inside: inside, Outside: outside, Notes: notes, once: once}
	b.mu.Lock()
	b.seen = now
	b.mu.Unlock()
	return put(filepath.Join(b.dir, seenName), &now)
}

// put writes a file of the sandbox's folder, by rename.
func put(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return safepath.File{Path: path, Alone: true}.Write(append(data, '\n'))
}

// Folder is the directory that the bridge is kept in.
func (b *Bridge) Folder() string { return b.dir }

func (b *Bridge) private() private { return private(filepath.Join(b.dir, "git")) }
func (b *Bridge) export() string   { return filepath.Join(b.dir, "host.git") }

// Open prepares the bridge for a start, and returns what the sandbox sees of it. It fails if
// the tree is no longer the worktree that it was. Nothing may run inside.
func (b *Bridge) Open(ctx context.Context) (*rootfs.Git, error) {
	b.private().unlock()
	if err := b.check(); err != nil {
		return nil, err
	}
	if !b.Laid {
		if err := b.hooks().renew(); err != nil {
			return nil, err
		}
	}
	if err := b.Refresh(ctx); err != nil {
		return nil, err
	}
	view := &rootfs.Git{
		Dir: string(b.private()), At: b.InsideDir(), Host: b.export(), HostAt: b.insideHost(),
		Objects: b.Objects, ObjectsAt: b.insideObjects(),
	}
	if !b.Over {
		view.File = filepath.Join(b.dir, pointerName)
	}
	if !b.Laid {
		var err error
		if view.Submodules, err = submodules(filepath.Join(b.Admin, "index"), filepath.Join(b.dir, "submodules")); err != nil {
			return nil, err
		}
	}
	// git-lfs looks for large files beside the alternates.
	if large := filepath.Join(b.Common, "lfs", "objects"); isRealDir(large) {
		view.Large = large
	}
	// The git directories of submodules that are checked out in the tree.
	if modules := filepath.Join(b.Common, "modules"); b.Over && isRealDir(modules) {
		view.Modules = modules
	}
	return view, nil
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// ErrTreeGone is about a worktree that somebody removed.
var ErrTreeGone = errors.New("its worktree is gone")

// check says what is wrong with the host's side.
func (b *Bridge) check() error {
	info, err := os.Lstat(b.Tree)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ui.Hint(fmt.Errorf("%s: %w", b.title(), ErrTreeGone), "%s'; the branch %s stays", b.removal(), b.Branch)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", b.Tree)
	case b.Laid:
		return nil
	case b.Admin == "": // its maker was killed
		return ui.Error(fmt.Sprintf("sandbox %s was never completed", b.Name), "remove it with 'coffer rm --force "+b.Name+"'")
	case !exists(b.Common):
		return ui.Error(fmt.Sprintf("%s belongs to %s, which is not there any more", b.title(), b.place()),
			fmt.Sprintf("move the repository back; or %s --force', which loses what is nowhere else", b.removal()))
	}
	line, err := firstLine(filepath.Join(b.Tree, ".git"))
	if err != nil {
		return ui.Hint(fmt.Errorf("the worktree's .git file: %w", err), "restore it with %s in the repository", ui.Command("git worktree repair", b.Tree))
	}
	if line != "gitdir: "+b.Admin || !b.isAdmin(b.Admin) {
		return ui.Hint(fmt.Errorf("%s is no longer a worktree of %s", b.Tree, b.Common), "restore it with %s in the repository", ui.Command("git worktree repair", b.Tree))
	}
	return nil
}

// isAdmin reports whether a directory of the repository is that of the worktree.
func (s *State) isAdmin(dir string) bool {
	back, err := firstLine(filepath.Join(dir, "gitdir"))
	return err == nil && filepath.Clean(back) == filepath.Join(s.Tree, ".git")
}

// firstLine reads a small file.
func firstLine(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return "", fmt.Errorf("%s is not a small file", path)
	}
	b, err := os.ReadFile(path)
	return strings.TrimRight(string(b), "\n"), err
}

// refs runs git on the host's refs and objects.
func (s *State) refs() host {
	return host{dir: "/", where: []string{"--git-dir=" + s.Common}}
}

// tree runs git on the worktree, with the host's index.
func (s *State) tree() host {
	return host{dir: s.Tree, where: []string{"--git-dir=" + s.Admin, "--work-tree=" + s.Tree}, locks: true}
}
