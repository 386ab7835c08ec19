package rootfs

import "github.com/cofferhq/coffer/internal/safepath"

// IncludeAt is where in a workspace the worktrees of other repositories are shown.
const IncludeAt = ".coffer/include"

// A Late is a worktree of another repository, with its git directory, to show in a sandbox
// that runs already. It is what [View.Includes] makes at a start.
type Late struct {
	Workspace string // the sandbox's own, inside
	At        string // where in it the worktree is to be
	Steps     []Step // those of the git directory
	Hidden    Paths  // paths in the worktree that must stay unread
	tree      string
}

// NewLate plans it, and more names by which coffer's program is known inside. The worktree's mount has to be handed over, and then the sources of the
// steps, see [Late.Lent].
func NewLate(workspace string, i Include, hidden, programs []string) *Late {
	l := &Late{Workspace: workspace, At: i.At, Hidden: hidden, tree: i.Tree}
	handed := 1
	for _, s := range i.Git.steps(i.At) {
		if s.Do == Bind {
			handed++
			s.FD = handed
		}
		l.Steps = append(l.Steps, s)
	}
	for _, name := range programs {
		l.Steps = append(l.Steps, program(name))
	}
	return l
}

// Lent lists the places of the host that it is made of, in the order in which they are handed
// over.
func (l *Late) Lent() (places []string) {
	places = append(places, l.tree)
	for _, s := range l.Steps {
		if s.Do == Bind {
			places = append(places, s.Source)
		}
	}
	return places
}

// places are its mount points, the worktree's own first.
func (l *Late) places() (all []string) {
	all = append(all, l.At)
	for _, s := range l.Steps {
		if s.Do == Bind && !safepath.Within(s.Target, l.At) {
			all = append(all, s.Target)
		}
	}
	return all
}
