// Package hidden keeps files of the user that a sandbox must not read out of its sight.
//
// The rules are package mask's. This package applies them to the directories of the host that one
// sandbox sees. What exists at the start is covered before any program runs: that is a wall. Later
// files are looked for before each program starts, and by a watch on the host meanwhile, and the
// guest is told to cover them too; programs that run can read such a file until then.
//
// Beside them it protects git repositories further down in the workspace, and finds files in git's
// index and history that would be hidden.
package hidden

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// A Host is what Files needs of the running sandbox.
type Host struct {
	Ask  func(wire.Request, time.Duration) (wire.Event, error) // the guest agent
	Tell func(line string)                                     // shows a notice to whoever listens
	Once func(line string, heard func())                       // shows it to the next listener; heard may be nil
}

// Files are what is hidden from a running sandbox.
type Files struct {
	sb     *sandbox.Sandbox
	host   Host
	nested nested

	life context.Context // nil before Start
	work sync.WaitGroup

	mu    sync.Mutex
	trees []*tree
	known map[string]File // by path on the host
}

// A tree is a directory of the host that a sandbox sees.
type tree struct {
	*mask.Tree
	at     string // inside
	shared bool   // what programs inside make lands here
	stays  bool   // it is the user's own
	upper  string // where it lands otherwise
}

// A File is a file or directory that a sandbox cannot read.
type File struct {
	Path    string `json:"path"` // on the host
	Dir     bool   `json:"directory,omitempty"`
	Rule    string `json:"rule"`
	From    string `json:"from"`              // the file and line of the rule, or "built-in"
	Tracked bool   `json:"tracked,omitempty"` // it is in git's index

	which mask.Which
}

// rules are the rules of a record.
func rules(m sandbox.Masks) (own, wish []mask.Rule) {
	for _, line := range m.Rules {
		r, says, err := mask.ParseLine(line.Line, line.Dir, line.From)
		switch {
		case err != nil || !says:
		case line.Own:
			own = append(own, r)
		default:
			wish = append(wish, r)
		}
	}
	return own, wish
}

// Open opens the workspace of a sandbox under its rules.
func Open(rec *sandbox.Record) (*mask.Tree, error) {
	own, wish := rules(rec.Masks)
	return mask.Open(rec.Workspace.Path, mask.NewSet(own, wish, rec.Masks.Prefix))
}

// New is for a sandbox that is about to start.
func New(sb *sandbox.Sandbox, host Host) *Files {
	return &Files{sb: sb, host: host, known: map[string]File{}}
}

// open opens all directories of the host that the sandbox sees.
func (f *Files) open(included []*git.Bridge) error {
	sb := f.sb
	if mode := sb.Workspace.Mode; mode != sandbox.WorkspaceNone {
		t, err := Open(&sb.Record)
		if err != nil {
			return err
		}
		f.trees = append(f.trees, &tree{Tree: t, at: sb.Workspace.Path, upper: sb.Upper(),
			shared: mode != sandbox.WorkspaceCOW, stays: mode == sandbox.WorkspaceDirect})
	}
	for _, b := range included {
		t, err := openIncluded(sb, b)
		if err != nil {
			return err
		}
		f.trees = append(f.trees, &tree{Tree: t, at: b.At(), shared: true})
	}
	own, _ := rules(sb.Masks)
	for _, m := range sb.Mounts {
		if info, err := os.Lstat(m.Source); err != nil || !info.IsDir() { // a link is refused elsewhere
			continue // a file that is mounted is meant to be seen
		}
		t, err := mask.Open(m.Source, mask.NewSet(own, nil, ""))
		if err != nil {
			return err
		}
		t.Top = true // nothing else keeps that
		f.trees = append(f.trees, &tree{Tree: t, at: m.Target, shared: !m.ReadOnly, stays: !m.ReadOnly})
	}
	return nil
}

// openIncluded opens the worktree of another repository, to which the rules of the user apply and
// not those of the workspace.
func openIncluded(sb *sandbox.Sandbox, b *git.Bridge) (*mask.Tree, error) {
	own, _ := rules(sb.Masks)
	return mask.Open(b.Tree, mask.NewSet(own, nil, ""))
}

// Scan finds what is to be hidden at the start.
func (f *Files) Scan(ctx context.Context, included []*git.Bridge) (m rootfs.Masks, err error) {
	if err := f.open(included); err != nil {
		return m, err
	}
	for _, t := range f.trees {
		r, err := t.Scan(ctx)
		if err != nil {
			return m, Problem(err)
		}
		for _, found := range r.Hidden {
			f.note(t, found)
			for _, at := range f.inside(t, found) {
				m.Hidden = append(m.Hidden, string(at))
			}
			for _, dir := range rootfs.Above(found.Path) {
				switch at := filepath.Join(t.at, dir); {
				case t.stays:
					m.Pinned = append(m.Pinned, at)
				case t.shared:
					m.Anchored = append(m.Anchored, [2]string{t.at, at})
				}
			}
		}
		if t.stays {
			for _, dir := range r.Rules {
				addLocked(&m, t, filepath.Join(dir, mask.FileName))
			}
			for _, path := range f.protectNested(t, r.Repositories) {
				addLocked(&m, t, path)
			}
			for _, path := range f.protectSettings(t, r.Settings) {
				addLocked(&m, t, path)
			}
		}
	}
	// The directories above stay where they are: moved somewhere else, a file might not
	// match any more at the next start.
	slices.Sort(m.Pinned)
	slices.SortFunc(m.Anchored, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	slices.Sort(m.Hidden)
	slices.Sort(m.Locked)
	m.Pinned, m.Anchored, m.Hidden, m.Locked = slices.Compact(m.Pinned), slices.Compact(m.Anchored), slices.Compact(m.Hidden), slices.Compact(m.Locked)
	if n := len(m.Pinned) + len(m.Anchored) + len(m.Locked); n > maxAbove {
		return m, ui.Error(fmt.Sprintf("hidden files and git repositories take %d mounts, more than %d", n, maxAbove),
			"hide the directories that they are in, see 'coffer masks'; leave repositories open, git.nested = \"open\" in your config, or settings, --allow-settings; or use --workspace cow")
	}
	return m, nil
}

// addLocked keeps a place of a tree as it is, and what is above it where it is.
func addLocked(m *rootfs.Masks, t *tree, path string) {
	m.Locked = append(m.Locked, filepath.Join(t.at, path))
	for _, dir := range rootfs.Above(path) {
		m.Anchored = append(m.Anchored, [2]string{t.at, filepath.Join(t.at, dir)})
	}
}

// maxAbove bounds how many files and directories are kept in their places: each takes a mount.
const maxAbove = 10_000

// inside lists where something that was found in a tree is seen. Files of the sandbox's own are
// left alone.
func (f *Files) inside(found *tree, what mask.Found) (at [][]byte) {
	for _, t := range f.trees {
		rest, ok := strings.CutPrefix(filepath.Join(found.Root, what.Path), t.Root+"/")
		if !ok || t.replaced(rest) {
			continue
		}
		at = append(at, []byte(filepath.Join(t.at, rest)))
	}
	return at
}

// replaced says whether a file of the sandbox's own is seen in the place of the host's.
func (t *tree) replaced(path string) bool {
	if t.upper == "" {
		return false
	}
	root, err := os.OpenRoot(t.upper)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Lstat(path)
	return err == nil && !info.IsDir()
}

// note notes what is hidden, and says whether that very file is known.
func (f *Files) note(t *tree, found mask.Found) (known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := filepath.Join(t.Root, found.Path)
	old, known := f.known[path]
	f.known[path] = File{Path: path, Dir: found.Dir, Rule: found.Rule, From: found.From, which: found.Which}
	return known && old.which == found.Which
}

// Noted lists what was hidden since the start, in order.
func (f *Files) Noted() []File {
	f.mu.Lock()
	list := slices.Collect(maps.Values(f.known))
	f.mu.Unlock()
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// List lists what is hidden now. Files that are gone are not hidden any more.
func (f *Files) List() []File {
	return slices.DeleteFunc(f.Noted(), func(h File) bool { return f.gone(h.Path) })
}

// gone says that a path is in none of the directories any more.
func (f *Files) gone(path string) bool {
	return !slices.ContainsFunc(f.trees, func(t *tree) bool {
		rest, ok := strings.CutPrefix(path, t.Root+"/")
		return ok && !t.Gone(rest)
	})
}

// Ask asks the supervisor at the end of a line what is hidden.
func Ask(l *wire.Line) (list []File, err error) {
	e, err := l.Ask(wire.Request{Op: wire.OpMasks}, 20*time.Second)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(e.Masks, &list)
}
