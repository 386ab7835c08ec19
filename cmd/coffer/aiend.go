package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
)

func (f *aiFlags) announce(sb *sandbox.Sandbox, a *agent.Agent) func(error) error {
	if f.detach {
		return func(err error) error { return err }
	}
	branch := ""
	if name := branchOf(sb); name != "" {
		branch = ", on branch " + terminal.Escape(name)
	}
	fmt.Fprintf(os.Stderr, "coffer: %s in sandbox %s%s\n", a.Name, sb.Name, branch)
	restore := func() {}
	if !f.headless {
		restore = entitle(sb, a.Name)
	}
	return func(err error) error {
		restore()
		if errors.Is(err, attach.ErrLeft) {
			return sayLeft(sb)
		}
		code := status(0)
		if err != nil && !errors.As(err, &code) {
			return err
		}
		if f.headless { // of others the supervisor knows it
			if err := agent.End(sb.Dir(), int(code)); err != nil {
				report(err)
			}
		}
		if !f.rm || !f.removed(sb) {
			sayOutcome(sb)
		}
		return err
	}
}

// entitle sets the terminal's title, and returns a function that restores the one before.
func entitle(sb *sandbox.Sandbox, name string) (restore func()) {
	fmt.Fprintf(stdout.To, "\x1b[22;2t\x1b]2;%s: %s\x07", name, sb.Name)
	return func() { fmt.Fprint(stdout.To, "\x1b[23;2t") }
}

func sayOutcome(sb *sandbox.Sandbox) {
	fmt.Fprintf(os.Stderr, "coffer: %s; go on with 'coffer ai -m %s'\n", terminal.Escape(outcome(sb)), sb.Name)
	b, err := git.Open(sb.Dir())
	if err != nil || sb.Workspace.Mode != sandbox.WorkspaceTree {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	if g := git.Standings(ctx, []*git.Bridge{b})[b]; g.Ahead > 0 && !g.Merged {
		fmt.Fprintf(os.Stderr, "coffer: to take it: 'coffer diff %s', 'coffer review %s', 'coffer merge %s'\n", sb.Name, sb.Name, sb.Name)
	}
}

func outcome(sb *sandbox.Sandbox) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tree, cow := sb.Workspace.Mode == sandbox.WorkspaceTree, sb.Workspace.Mode == sandbox.WorkspaceCOW
	var parts []string
	say := func(n int, err error, what, rest string) {
		if err == nil && n > 0 {
			parts = append(parts, count(n, what)+rest)
		}
	}
	if b, err := git.Open(sb.Dir()); err == nil {
		g := git.Standings(ctx, []*git.Bridge{b})[b]
		say(g.Ahead, nil, "commit", " on "+g.Branch)
		if tree {
			n, err := b.Dirty(ctx)
			say(n, err, "file", " not committed")
		}
		if len(parts) == 0 {
			// It may have gone back from another branch, on which its work is.
			n, err := b.Unmerged(ctx)
			say(n, err, "commit", " on other branches of the sandbox")
		}
	}
	if cow {
		n, err := waiting(sb)
		say(n, err, "change", fmt.Sprintf(" waiting, see 'coffer diff %s'", sb.Name))
	}
	switch {
	case len(parts) > 0:
		return sb.Name + ": " + strings.Join(parts, ", and ")
	case tree || cow:
		return sb.Name + ": nothing changed"
	}
	return sb.Name
}

func (f *aiFlags) removed(sb *sandbox.Sandbox) bool {
	ctx := context.Background()
	if err := stop(ctx, sb, false); err != nil {
		report(err)
		return false
	}
	if _, err := remove(ctx, sb, false, true); err != nil {
		fmt.Fprintf(os.Stderr, "coffer: kept: %s\n", terminal.Escape(err.Error()))
		return false
	}
	fmt.Fprintf(os.Stderr, "coffer: removed sandbox %s: there was nothing in it that is not elsewhere\n", sb.Name)
	return true
}
