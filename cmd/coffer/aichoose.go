package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// choose lets the user choose on the terminal. Without one, instead says which flag says the same.
func choose(c *cobra.Command, title string, items []ui.Item, instead string) (int, error) {
	tty, err := ui.OpenTerminal()
	if err != nil || os.Getenv("TERM") == "dumb" {
		return 0, ui.Hint(usagef("there is no terminal to choose on"), "%s", instead)
	}
	defer tty.Close()
	ctx, stop := interruptible(c)
	defer stop()
	i, err := ui.Choose(ctx, tty, title, items)
	switch {
	case errors.Is(err, ui.ErrInterrupted):
		ui.Interrupted(true)
		return 0, status(130)
	case errors.Is(err, ui.ErrCancelled):
		return 0, status(130)
	}
	return i, err
}

func chooseAgent(c *cobra.Command, all []*agent.Agent) (*agent.Agent, error) {
	var items []ui.Item
	host := agentHost()
	for _, a := range all {
		state := "will be installed"
		if p, err := a.Locate(host); err == nil {
			state = strings.TrimSpace("installed " + p.Version)
		} else if a.Package == "" {
			state = "is not installed"
		}
		items = append(items, ui.Item{a.Name, a.Title, state})
	}
	i, err := choose(c, "Which agent shall be the default?", items, "name it: coffer ai AGENT, one of "+agentNames(all))
	if err != nil {
		return nil, err
	}
	return all[i], nil
}

type candidate struct {
	agent, branch, repo string
	last                time.Time // when something happened in it
}

func look(sb *sandbox.Sandbox) candidate {
	c := candidate{repo: sb.Workspace.Path, last: sb.Created}
	if sb.Workspace.Mode == sandbox.WorkspaceTree {
		if b, err := git.Open(sb.Dir()); err == nil {
			c.branch, c.repo = b.Branch, strings.TrimSuffix(b.Common, "/.git")
		}
	}
	if t, err := agent.ReadTrace(sb.Dir()); err == nil {
		c.agent = t.Agent
	}
	for _, name := range []string{"agent.json", "git.seen", "logs/output.log", "logs/supervisor.log"} {
		if info, err := os.Stat(filepath.Join(sb.Dir(), name)); err == nil && info.ModTime().After(c.last) {
			c.last = info.ModTime()
		}
	}
	return c
}

// chooseSandbox lets the user choose a sandbox, or a new one, which is nil. In a worktree, its sandbox is taken.
func chooseSandbox(cmd *cobra.Command, store *sandbox.Store) (*sandbox.Sandbox, error) {
	here, err := spotHere()
	if err != nil {
		return nil, err
	}
	list, _ := store.List()
	list = only(list, func(sb *sandbox.Sandbox) bool { return !sb.Ephemeral && !sb.Once })
	if i := slices.IndexFunc(list, here.ownedBy); i >= 0 {
		return list[i], nil
	}
	if len(list) == 0 {
		return nil, nil
	}
	shown, everywhere := only(list, here.about), false
	for {
		seen := map[string]candidate{}
		for _, sb := range shown {
			seen[sb.ID] = look(sb)
		}
		slices.SortFunc(shown, func(a, b *sandbox.Sandbox) int { return seen[b.ID].last.Compare(seen[a.ID].last) })
		var items []ui.Item
		for _, d := range describeAll(shown, false) {
			c := seen[d.ID]
			item := ui.Item{d.Name, c.agent, c.branch, age(c.last) + " ago", d.state()}
			if everywhere {
				item = append(item, c.repo)
			}
			items = append(items, item)
		}
		items = append(items, ui.Item{"a new sandbox"})
		if !everywhere && len(list) > len(shown) {
			items = append(items, ui.Item{fmt.Sprintf("those of all repositories (%d)", len(list))})
		}
		i, err := choose(cmd, "Continue in which sandbox?", items, "choose one with -m, or make one with --create or a PROMPT")
		switch {
		case err != nil:
			return nil, err
		case i < len(shown):
			return shown[i], nil
		case i == len(shown):
			return nil, nil
		}
		shown, everywhere = list, true
	}
}
