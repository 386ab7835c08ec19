package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
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

// Files that must stay unread are found while the machine boots, and covered before any
// program runs: that is a wall. Later ones are looked for before each program starts, and heard
// of by a watch on the host meanwhile, and the guest is told to cover them too. Programs that
// run can read such a file until it is covered.

// masks are what is hidden from a running sandbox.
type masks struct {
	life  context.Context // ends with the sandbox
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu     sync.Mutex
	shown  []*shown
	hidden map[string]Hidden // by path on the host
}

// trees are the directories that the sandbox sees.
func (m *masks) trees() []*shown {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shown)
}

func (m *masks) add(one *shown) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown = append(m.shown, one)
}

// shown is a directory of the host that a sandbox sees.
type shown struct {
	tree   *mask.Tree
	at     string // inside
	shared bool   // what programs inside make lands here
	stays  bool   // it is the user's own
	upper  string // where it lands otherwise
}

// A Hidden is a file or directory that a sandbox cannot read.
type Hidden struct {
	Path    string `json:"path"` // on the host
	Dir     bool   `json:"directory,omitempty"`
	Rule    string `json:"rule"`
	From    string `json:"from"`              // the file and line of the rule, or "built-in"
	Tracked bool   `json:"tracked,omitempty"` // it is in git's index

	which mask.Which
}

// MaskRules are the rules of a record.
func MaskRules(m sandbox.Masks) (own, wish []mask.Rule) {
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

// OpenMasks opens the workspace of a sandbox, and asks of it what is hidden.
func OpenMasks(rec *sandbox.Record) (*mask.Tree, error) {
	own, wish := MaskRules(rec.Masks)
	return mask.Open(rec.Workspace.Path, mask.NewSet(own, wish, rec.Masks.Prefix))
}

// openMasks opens all directories of the host that the sandbox sees.
func (s *Supervisor) openMasks() error {
	sb := s.Sandbox
	if mode := sb.Workspace.Mode; mode != sandbox.WorkspaceNone {
		t, err := OpenMasks(&sb.Record)
		if err != nil {
			return err
		}
		one := &shown{tree: t, at: sb.Workspace.Path, shared: mode != sandbox.WorkspaceCOW, stays: mode == sandbox.WorkspaceDirect}
		one.upper = WorkspaceLayer(sb)
		s.masks.add(one)
	}
	for _, g := range s.included.all {
		one, err := openIncludedMasks(sb, g.bridge)
		if err != nil {
			return err
		}
		s.masks.add(one)
	}
	own, _ := MaskRules(sb.Masks)
	for _, m := range sb.Mounts {
		if info, err := os.Lstat(m.Source); err != nil || !info.IsDir() { // a link is refused elsewhere
			continue // a file that is mounted is meant to be seen
		}
		t, err := mask.Open(m.Source, mask.NewSet(own, nil, ""))
		if err != nil {
			return err
		}
		t.Top = true // nobody else keeps that
		s.masks.add(&shown{tree: t, at: m.Target, shared: !m.ReadOnly, stays: !m.ReadOnly})
	}
	return nil
}

// WorkspaceLayer is where what programs write in a copy-on-write workspace lands; empty in
// others.
func WorkspaceLayer(sb *sandbox.Sandbox) string {
	if sb.Workspace.Mode != sandbox.WorkspaceCOW {
		return ""
	}
	return filepath.Join(sb.Layers(), "workspace", "upper")
}

// openIncludedMasks opens the worktree of another repository, which is hidden in by the rules of
// the user and not by those of the workspace.
func openIncludedMasks(sb *sandbox.Sandbox, b *git.Bridge) (*shown, error) {
	own, _ := MaskRules(sb.Masks)
	t, err := mask.Open(b.Tree, mask.NewSet(own, nil, ""))
	if err != nil {
		return nil, err
	}
	return &shown{tree: t, at: b.At(), shared: true}, nil
}

// scanMasks finds what is to be hidden.
func (s *Supervisor) scanMasks(ctx context.Context) (m rootfs.Masks, err error) {
	if err := s.openMasks(); err != nil {
		return m, err
	}
	s.masks.hidden = map[string]Hidden{}
	for _, one := range s.masks.trees() {
		r, err := one.tree.Scan(ctx)
		if err != nil {
			return m, MaskProblem(err)
		}
		for _, f := range r.Hidden {
			s.note(one.tree.Root, f)
			for _, c := range s.masks.inside(one.tree.Root, f) {
				m.Hidden = append(m.Hidden, string(c))
			}
			for _, dir := range rootfs.Above(f.Path) {
				switch at := filepath.Join(one.at, dir); {
				case one.stays:
					m.Pinned = append(m.Pinned, at)
				case one.shared:
					m.Anchored = append(m.Anchored, [2]string{one.at, at})
				}
			}
		}
		if one.stays {
			for _, dir := range r.Rules {
				addLocked(&m, one, filepath.Join(dir, mask.FileName))
			}
			for _, path := range s.protectNested(one, r.Repositories) {
				addLocked(&m, one, path)
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
			"hide the directories that they are in, see 'coffer masks'; leave repositories open, git.nested = \"open\" in your config; or use --workspace cow")
	}
	return m, nil
}

// addLocked has a place of a tree stay as it is, and what is above it where it is.
func addLocked(m *rootfs.Masks, one *shown, path string) {
	m.Locked = append(m.Locked, filepath.Join(one.at, path))
	for _, dir := range rootfs.Above(path) {
		m.Anchored = append(m.Anchored, [2]string{one.at, filepath.Join(one.at, dir)})
	}
}

// maxAbove bounds how many files and directories are kept in their places: each takes a mount.
const maxAbove = 10_000

// inside lists where something that was found in a tree is seen. Files of the sandbox's own are
// left alone.
func (m *masks) inside(root string, f mask.Found) (at [][]byte) {
	for _, one := range m.trees() {
		rest, ok := strings.CutPrefix(filepath.Join(root, f.Path), one.tree.Root+"/")
		if !ok || one.replaced(rest) {
			continue
		}
		at = append(at, []byte(filepath.Join(one.at, rest)))
	}
	return at
}

// replaced says that a file of the sandbox's own is seen in the place of the host's.
func (one *shown) replaced(path string) bool {
	if one.upper == "" {
		return false
	}
	root, err := os.OpenRoot(one.upper)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Lstat(path)
	return err == nil && !info.IsDir()
}

// note notes what is hidden, and says whether that very file is known.
func (s *Supervisor) note(root string, f mask.Found) (known bool) {
	s.masks.mu.Lock()
	defer s.masks.mu.Unlock()
	path := filepath.Join(root, f.Path)
	old, known := s.masks.hidden[path]
	s.masks.hidden[path] = Hidden{Path: path, Dir: f.Dir, Rule: f.Rule, From: f.From, which: f.Which}
	return known && old.which == f.Which
}

// hidden lists what is hidden, in order.
func (s *Supervisor) hidden() []Hidden {
	s.masks.mu.Lock()
	list := slices.Collect(maps.Values(s.masks.hidden))
	s.masks.mu.Unlock()
	slices.SortFunc(list, func(a, b Hidden) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Hidden lists what is hidden now. Files that are gone are not hidden any more.
func (s *Supervisor) Hidden() []Hidden {
	trees := s.masks.trees()
	return slices.DeleteFunc(s.hidden(), func(h Hidden) bool { return gone(trees, h.Path) })
}

// answerMasks serves OpMasks.
func (s *Supervisor) answerMasks(c net.Conn) {
	if b, err := json.Marshal(append([]Hidden{}, s.Hidden()...)); err == nil {
		_ = wire.WriteMessage(c, wire.Event{Masks: b})
	}
}

// gone says that a path is in none of the directories any more.
func gone(trees []*shown, path string) bool {
	return !slices.ContainsFunc(trees, func(one *shown) bool {
		rest, ok := strings.CutPrefix(path, one.tree.Root+"/")
		return ok && !one.tree.Gone(rest)
	})
}

// Masked asks the supervisor at the end of a line what is hidden.
func Masked(l *Line) (list []Hidden, err error) {
	e, err := l.Ask(wire.Request{Op: wire.OpMasks}, 20*time.Second)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(e.Masks, &list)
}
