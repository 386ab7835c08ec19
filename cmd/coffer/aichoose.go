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
	"github.com/cofferhq/coffer/internal/interrupt"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// choose lets the user choose on the terminal. Without one, the flag that says the same
// is named.
func choose(title string, items []ui.Item, instead string) (int, error) {
	tty, err := ui.OpenTerminal()
	if err != nil || os.Getenv("TERM") == "dumb" {
		return 0, ui.Hint(usagef("there is no terminal to choose on"), "%s", instead)
	}
	defer tty.Close()
	i, err := ui.Choose(tty, title, items)
	var sent ui.Signal
	switch {
	case errors.Is(err, ui.ErrInterrupted):
		interrupt.Note(true)
		return 0, status(130)
	case errors.Is(err, ui.ErrCancelled):
		return 0, status(130)
	case errors.As(err, &sent):
		return 0, givenUp(sent)
	}
	return i, err
}

// askAgent asks which agent is the usual one.
func askAgent(all []*agent.Agent) (*agent.Agent, error) {
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
	i, err := choose("Which agent shall be the default?", items, "name it: coffer ai AGENT, one of "+strings.Join(agent.Names(all), ", "))
	if err != nil {
		return nil, err
	}
	return all[i], nil
}

// candidate is a sandbox that could be gone on with.
type candidate struct {
	*sandbox.Sandbox
	branch string
	repo   string // the repository's directory, or the workspace
	agent  string
	last   time.Time
}

// look finds out what the list shows of a sandbox, with no program asked for it.
func look(sb *sandbox.Sandbox) candidate {
	c := candidate{Sandbox: sb, repo: sb.Workspace.Path, last: sb.Created}
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

// of says whether the sandbox works on a directory's repository.
func (c candidate) of(here spot) bool {
	return here.dir == c.repo || safepath.Within(here.dir, c.repo) || here.in(c.Sandbox) || here.near(c.Sandbox)
}

func (c candidate) item(state string, everywhere bool) ui.Item {
	item := ui.Item{c.Name, c.agent, c.branch, age(c.last) + " ago", state}
	if everywhere {
		item = append(item, c.repo)
	}
	return item
}

// chooseSandbox lets the user choose one to go on with, or a new one, which is nil. Who
// is in a sandbox's worktree means that.
func chooseSandbox(store *sandbox.Store) (*sandbox.Sandbox, error) {
	here, err := spotHere()
	if err != nil {
		return nil, err
	}
	list, _ := store.List()
	var mine, all []candidate
	for _, sb := range list {
		if sb.Ephemeral || sb.Once {
			continue
		}
		if here.ownedBy(sb) {
			return sb, nil
		}
		c := look(sb)
		all = append(all, c)
		if c.of(here) {
			mine = append(mine, c)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	shown, everywhere := mine, false
	for {
		slices.SortFunc(shown, func(a, b candidate) int { return b.last.Compare(a.last) })
		var items []ui.Item
		boxes := make([]*sandbox.Sandbox, len(shown))
		for i, c := range shown {
			boxes[i] = c.Sandbox
		}
		for i, d := range describeAll(boxes, false) {
			items = append(items, shown[i].item(d.state(), everywhere))
		}
		items = append(items, ui.Item{"a new sandbox"})
		if !everywhere && len(all) > len(mine) {
			items = append(items, ui.Item{fmt.Sprintf("those of all repositories (%d)", len(all))})
		}
		i, err := choose("Continue in which sandbox?", items, "choose one with -m, or make one with --create or a PROMPT")
		switch {
		case err != nil:
			return nil, err
		case i < len(shown):
			return shown[i].Sandbox, nil
		case i == len(shown):
			return nil, nil
		}
		shown, everywhere = all, true
	}
}
