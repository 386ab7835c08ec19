package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// included are the repositories besides the sandbox's own, as they were when it started.
type included struct {
	all []*commits

	mu      sync.Mutex
	servers map[*commits]*hostServer
}

// server answers pushes and fetches of one of them; nil if there is none of this name.
func (i *included) server(name string, s *Supervisor, hub *hub) *hostServer {
	n := slices.IndexFunc(i.all, func(g *commits) bool { return g.name == name })
	if n < 0 {
		return nil
	}
	g := i.all[n]
	i.mu.Lock()
	defer i.mu.Unlock()
	h := i.servers[g]
	if h == nil {
		if i.servers == nil {
			i.servers = map[*commits]*hostServer{}
		}
		h = &hostServer{Supervisor: s, repository: g, turn: make(chan struct{}, 1), hub: hub}
		i.servers[g] = h
	}
	return h
}

// openIncluded opens the bridges of the repositories that the sandbox includes, and says
// what is seen of them. One that cannot be shown, because its worktree is gone or because
// something else is in its place, is left out with a notice: the sandbox is more than that.
func (s *Supervisor) openIncluded() (views []rootfs.Include) {
	if s.Sandbox.Ephemeral || s.Sandbox.Workspace.Mode == sandbox.WorkspaceNone {
		return nil
	}
	for _, b := range git.Included(s.Sandbox.Dir()) {
		view, err := s.openOne(b)
		if err != nil {
			s.notices.tell(fmt.Sprintf("the repository %s is not shown: %s", b.Include, err))
			continue
		}
		s.included.all = append(s.included.all, &commits{bridge: b, name: b.Include})
		views = append(views, view)
	}
	if own, err := git.Open(s.Sandbox.Dir()); err == nil && len(views) > 0 {
		own.IgnoreIncluded()
	}
	return views
}

func (s *Supervisor) openOne(b *git.Bridge) (i rootfs.Include, err error) {
	if err := b.CheckPlace(s.Sandbox.Workspace.Path, WorkspaceLayer(s.Sandbox)); err != nil {
		return i, err
	}
	b.Unlock()
	view, err := b.View()
	if err == nil {
		err = b.RenewHooks()
	}
	if err == nil {
		err = b.Refresh(context.Background())
	}
	return rootfs.Include{Tree: b.Tree, At: b.At(), Git: view}, err
}

// includedBridges are those of the repositories that are shown.
func (s *Supervisor) includedBridges() (all []*git.Bridge) {
	for _, g := range s.included.all {
		all = append(all, g.bridge)
	}
	return all
}
