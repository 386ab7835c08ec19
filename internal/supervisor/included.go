package supervisor

import (
	"context"
	"fmt"

	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// openIncluded opens the bridges of the repositories that the sandbox includes, and says
// what is seen of them. One that cannot be shown, because its worktree is gone or because
// something else is in its place, is left out with a word: the sandbox is more than that.
func (s *Supervisor) openIncluded() (views []rootfs.Include) {
	sb := s.Sandbox
	if sb.Ephemeral || sb.Workspace.Mode == sandbox.WorkspaceNone {
		return nil
	}
	for _, b := range gitbridge.Included(sb.Dir()) {
		view, err := openOne(b, sb.Workspace.Path)
		if err != nil {
			s.notices.tell(fmt.Sprintf("the repository %s is not shown: %s", b.Include, err))
			continue
		}
		s.included = append(s.included, &git{bridge: b, name: b.Include})
		views = append(views, rootfs.Include{Tree: b.Tree, At: b.At(), Git: view})
	}
	if len(views) > 0 {
		if own, err := gitbridge.Open(sb.Dir()); err == nil {
			own.IgnoreIncluded()
		}
	}
	return views
}

func openOne(b *gitbridge.Bridge, workspace string) (*rootfs.Git, error) {
	if err := b.CheckPlace(workspace); err != nil {
		return nil, err
	}
	b.Unlock()
	view, err := b.View()
	if err == nil {
		err = b.RenewHooks()
	}
	if err == nil {
		err = b.Refresh(context.Background())
	}
	return view, err
}

// includedBridges are those of the repositories that are shown.
func (s *Supervisor) includedBridges() (all []*gitbridge.Bridge) {
	for _, g := range s.included {
		all = append(all, g.bridge)
	}
	return all
}
