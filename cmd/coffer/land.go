package main

import (
	"context"
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

// landCommits moves the user's branch to what a run has committed over his directory, if he has
// said so or says so now. A line has told him the command for later.
func (s *settings) landCommits(l *listener, super *supervisor.Supervisor) {
	branch := super.CameOut()
	if branch == "" || !s.take && !(terminal.IsTerminal(0) && terminal.IsTerminal(2)) {
		return
	}
	r, err := git.Find(l.ctx, super.Sandbox.Workspace.Path)
	var to *git.Landing
	if err == nil {
		to, err = r.Landing(l.ctx, branch)
	}
	if err != nil {
		report(err)
		return
	}
	if to == nil {
		if s.take {
			fmt.Fprintln(os.Stderr, "coffer: your branch was not moved: that is no fast-forward, something else is staged, or there are submodules")
		}
		return
	}
	if !s.take {
		yes, err := ui.Agree(l.ctx, fmt.Sprintf("coffer: Move %s there now (%s; no file changes)?", terminal.Escape(to.To), count(to.Commits, "commit")))
		if err != nil || !yes {
			return
		}
	}
	if err := land(context.Background(), os.Stderr, r, to); err != nil {
		report(err)
	}
}
