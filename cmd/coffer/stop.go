package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/busy"
	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

// several finds the sandboxes that a command names. With all, it may return some and
// an error about others.
func several(store *sandbox.Store, args []string, all bool) ([]*sandbox.Sandbox, error) {
	if all {
		if len(args) > 0 {
			return nil, usagef("--all means every sandbox: name none")
		}
		list, errs := store.List()
		return list, errors.Join(errs...)
	}
	if len(args) == 0 {
		sb, err := forName.choose(store, "")
		if err != nil {
			return nil, err
		}
		return []*sandbox.Sandbox{sb}, nil
	}
	var list []*sandbox.Sandbox
	for _, a := range args {
		if a == "" {
			return nil, usagef("a sandbox's name is not empty")
		}
		sb, err := forName.choose(store, a)
		if err != nil {
			return nil, err
		}
		if a != sb.Name && !strings.HasPrefix(sb.ID, a) {
			// It may not be the one that the user has in mind.
			fmt.Fprintf(os.Stderr, "coffer: %s is sandbox %s\n", terminal.Escape(a), sb.Name)
		}
		list = append(list, sb)
	}
	return list, nil
}

func stopCommand() *cobra.Command {
	var all, force bool
	var match []string
	c := &cobra.Command{
		Use:               "stop [MATCH…]",
		ValidArgsFunction: completeSandbox,
		Short:             "Stop sandboxes, keeping what is in them",
		Long: `Stop sandboxes. Programs inside are asked to end and killed after five seconds.
What they changed stays; 'coffer exec' starts the sandbox again.`,
		Example: "  coffer stop parser\n  coffer stop --all",
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			list, err := several(store, append(args, match...), all)
			errs := []error{err}
			for _, sb := range list {
				errs = append(errs, stop(c.Context(), sb, force))
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "stop every sandbox")
	c.Flags().BoolVar(&force, "force", false, "kill at once")
	c.Flags().StringArrayVarP(&match, "match", "m", nil, "a sandbox to stop: its id starts with `MATCH`, or its name contains it")
	return c
}

// stopGrace is how long programs have to end when they are asked to.
const stopGrace = 5 * time.Second

// stop ends a sandbox and waits until it has.
func stop(ctx context.Context, sb *sandbox.Sandbox, force bool) error {
	if !sb.Running() {
		return nil
	}
	if supervisor.Suspended(sb) {
		if !force {
			return hint.New(fmt.Sprintf("sandbox %s is suspended, as by Ctrl-Z, and hears nothing", sb.Name), "let it go on with 'fg' in its terminal, or kill it with 'coffer stop --force "+sb.Name+"'")
		}
		if err := supervisor.KillHung(sb); err != nil {
			return err
		}
	}
	defer busy.Start("stopping sandbox " + sb.Name)()
	grace := stopGrace
	if force {
		grace = 0
	}
	const patience = 5 * time.Second
	asked, killed, process := false, false, 0
	deadline := time.Now().Add(grace + patience)
	for try := 1; sb.Running(); try++ {
		// One that is just being started does not listen yet.
		if !asked {
			if session, err := supervisor.Connect(sb); err == nil {
				defer session.Close()
				process, asked = askToStop(session, grace)
			}
		} else if try%20 == 0 && process != 0 && startedAgain(sb, process) {
			return nil
		}
		if time.Now().After(deadline) {
			if force && !killed {
				if err := supervisor.KillHung(sb); err != nil {
					return err
				}
				killed, deadline = true, time.Now().Add(patience)
				continue
			}
			return hint.New(fmt.Sprintf("sandbox %s does not stop", sb.Name), "kill it with 'coffer stop --force "+sb.Name+"'")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

// askToStop says whether the supervisor was told to end the sandbox, and which process it is.
func askToStop(l *supervisor.Line, grace time.Duration) (process int, ok bool) {
	s, err := l.Socket()
	if err != nil {
		return 0, false
	}
	return supervisor.Process(s), wire.WriteRequest(s, wire.Request{Op: wire.OpStop, Stop: &wire.Stop{Grace: grace}}) == nil
}

// startedAgain says whether a sandbox has another supervisor than this one: then it has
// stopped, and somebody has started it since.
func startedAgain(sb *sandbox.Sandbox, process int) bool {
	l, err := supervisor.Connect(sb)
	if err != nil {
		return false
	}
	defer l.Close()
	s, err := l.Socket()
	if err != nil {
		return false
	}
	defer s.Close()
	now := supervisor.Process(s)
	return now != 0 && now != process
}

func removeCommand() *cobra.Command {
	var all, force, branch bool
	var match []string
	c := &cobra.Command{
		Use:               "remove [MATCH…]",
		ValidArgsFunction: completeSandbox,
		Aliases:           []string{"rm", "delete"},
		Short:             "Remove sandboxes and everything in them",
		Long: `Remove sandboxes: their home, what was installed in them, their logs. The workspace
is yours and stays, unless it is a worktree: that goes, and its branch goes too, unless
it has commits that no other branch has. A sandbox in which a program runs, that has
changes waiting to be applied, or whose worktree has changes that are not committed, or
commits that are merged nowhere, is removed with --force only. A squash, a rebase or
cherry-picks count as a merge. One that only waits for its next command is stopped.`,
		Example: "  coffer remove parser\n  coffer rm --force --all",
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			if len(args)+len(match) == 0 {
				tidyTrees(c.Context(), store)
			}
			list, err := several(store, append(args, match...), all)
			errs := []error{err}
			for _, sb := range list {
				errs = append(errs, remove(c.Context(), sb, force, branch))
			}
			limits.Sweep(func(id string) bool {
				sb, err := store.Get(id)
				return err == nil && sb.Running()
			})
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "remove every sandbox")
	c.Flags().BoolVar(&force, "force", false, "remove it although programs run in it, or something would be lost")
	c.Flags().BoolVar(&branch, "delete-branch", false, "delete its branches too")
	c.Flags().StringArrayVarP(&match, "match", "m", nil, "a sandbox to remove: its id starts with `MATCH`, or its name contains it")
	return c
}

// idle says that a sandbox only waits for its next command: nobody would miss it. A program whose
// command is back counts for a moment longer, so it is asked again.
func idle(sb *sandbox.Sandbox) bool {
	const tries, pause = 10, 20 * time.Millisecond
	for range tries {
		d := describe(sb, false)
		if d.PID == 0 || d.Execs == 0 {
			return d.PID > 0
		}
		time.Sleep(pause)
	}
	return false
}

// stopIdle stops a sandbox that waits for its next command. One that does something is
// left alone.
func stopIdle(ctx context.Context, sb *sandbox.Sandbox) error {
	if !sb.Running() || !idle(sb) {
		return nil
	}
	return stop(ctx, sb, false)
}

// remove deletes a sandbox, refusing what would lose something.
func remove(ctx context.Context, sb *sandbox.Sandbox, force, branch bool) error {
	if force {
		if err := stop(ctx, sb, true); err != nil {
			return err
		}
	} else if err := mayRemove(ctx, sb, branch); err != nil {
		return err
	}
	return removeStopped(ctx, sb, branch)
}

// mayRemove stops a sandbox that is idle, if nothing would be lost with it: one that is
// not removed goes on as it was. What came meanwhile is looked for once more.
func mayRemove(ctx context.Context, sb *sandbox.Sandbox, branch bool) error {
	if sb.Running() && idle(sb) {
		bringRunning(sb)
		if err := loses(ctx, sb, branch); err != nil {
			return err
		}
		if err := stopIdle(ctx, sb); err != nil {
			return err
		}
	}
	if sb.Running() {
		return nil // which is reason enough to refuse
	}
	return loses(ctx, sb, branch)
}

// loses says what would be lost with a sandbox.
func loses(ctx context.Context, sb *sandbox.Sandbox, branch bool) error {
	if sb.Workspace.Mode == sandbox.WorkspaceCOW {
		n, err := waiting(sb)
		if err != nil {
			return hint.Wrap(err, "remove it all the same with --force")
		}
		if n > 0 {
			return hint.New(fmt.Sprintf("sandbox %s has %s not applied", sb.Name, count(n, "change")),
				fmt.Sprintf("see 'coffer diff %s', or remove it all the same with --force", sb.Name))
		}
	}
	if err := losesRepository(sb); err != nil {
		return err
	}
	all := gitbridge.Included(sb.Dir())
	b, err := gitbridge.Open(sb.Dir())
	switch {
	case err == nil:
		all = append([]*gitbridge.Bridge{b}, all...)
	case sb.Workspace.Mode == sandbox.WorkspaceTree && !errors.Is(err, fs.ErrNotExist): // else it was never completed
		return hint.Wrap(err, "remove it all the same with --force")
	}
	for _, b := range all {
		if err := b.MayRemove(ctx, branch); err != nil {
			return err
		}
	}
	return nil
}

// removeStopped removes a sandbox that does not run, after whoever includes a repository in it, or
// takes one out, has done so: else he would go on, and nobody would know of what he makes.
func removeStopped(ctx context.Context, sb *sandbox.Sandbox, branch bool) error {
	release, err := gitbridge.HoldIncluded(ctx, sb.Dir())
	if errors.Is(err, gitbridge.ErrRemoved) {
		return fmt.Errorf("%w: %s", sandbox.ErrNotFound, sb.Name)
	}
	if err != nil {
		return err
	}
	defer release()
	var forgot error
	err = sb.Remove(func(tree string) error {
		forgot = forgetGit(tree, branch)
		return purgeForgotten(tree)
	})
	if errors.Is(err, sandbox.ErrRunning) {
		return hint.New(fmt.Sprintf("a program runs in sandbox %s", sb.Name), "stop it with 'coffer stop "+sb.Name+"', or remove it all the same with --force")
	}
	return errors.Join(err, forgot)
}
