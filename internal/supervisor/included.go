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

// included are the repositories besides the sandbox's own. They can come and go while it runs,
// see late.go.
type included struct {
	change sync.Mutex          // one comes or goes at a time
	away   map[string]*commits // those that were taken away, by name; who has change has it
	batch  byte                // counts the mounts that were lent, likewise

	mu      sync.Mutex
	all     []*commits
	servers map[*commits]*hostServer
	refused map[string]bool // those that could not be shown, by name
}

// shown are those that programs see.
func (i *included) shown() []*commits {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.all)
}

// find finds one by its name.
func (i *included) find(name string) *commits {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := slices.IndexFunc(i.all, func(g *commits) bool { return g.name == name }); n >= 0 {
		return i.all[n]
	}
	return nil
}

func (i *included) add(g *commits) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(slices.Clone(i.all), g)
	delete(i.refused, g.name)
}

func (i *included) drop(g *commits) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = slices.DeleteFunc(slices.Clone(i.all), func(o *commits) bool { return o == g })
	delete(i.servers, g)
}

// refuse notes that one cannot be shown, so that it is not tried with every program.
func (i *included) refuse(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refused == nil {
		i.refused = map[string]bool{}
	}
	i.refused[name] = true
}

// server answers pushes and fetches of one of them; nil if there is none of this name.
func (i *included) server(name string, s *Supervisor, hub *hub) *hostServer {
	g := i.find(name)
	if g == nil {
		return nil
	}
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
// something else is in its place, is left out with a word: the sandbox is more than that.
func (s *Supervisor) openIncluded() (views []rootfs.Include) {
	if !s.includes() {
		return nil
	}
	for _, b := range git.Included(s.Sandbox.Dir()) {
		view, err := s.openOne(b)
		if err != nil {
			s.included.refuse(b.Include)
			s.notices.tell(fmt.Sprintf("the repository %s is not shown: %s", b.Include, err))
			continue
		}
		s.included.add(&commits{bridge: b, name: b.Include, view: rootfs.NewLate(s.Sandbox.Workspace.Path, view, nil, nil)})
		views = append(views, view)
	}
	if len(views) > 0 {
		s.ignoreIncluded()
	}
	return views
}

// includes says whether the sandbox can include repositories at all.
func (s *Supervisor) includes() bool {
	return !s.Sandbox.Ephemeral && s.Sandbox.Workspace.Mode != sandbox.WorkspaceNone
}

// ignoreIncluded has git inside, in the sandbox's own repository, not mind the others.
func (s *Supervisor) ignoreIncluded() {
	if own, err := git.Open(s.Sandbox.Dir()); err == nil {
		own.IgnoreIncluded()
	}
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
	for _, g := range s.included.shown() {
		all = append(all, g.bridge)
	}
	return all
}
