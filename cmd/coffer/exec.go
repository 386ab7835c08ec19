package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

// idleDefault is how long a sandbox in which nothing runs is kept running.
const idleDefault = 10 * time.Minute

func execCommand() *cobra.Command {
	var s settings
	var match string
	var create bool
	var tree treeFlags
	var idle time.Duration
	c := &cobra.Command{
		Use:     "exec [flags] [--] [COMMAND [ARG…]]",
		Aliases: []string{"x"},
		Short:   "Run a command in a sandbox that stays",
		Long: `Run a command in an existing sandbox, or in a new one with --create. The sandbox is
started if it does not run, keeps what was changed in it, and stops when it has been
idle for a while. Without -m it is the one over the current directory, or else the
one with a worktree of the repository here. Without a command, a shell is run.

In a git repository, a new sandbox gets a worktree on a branch of its own, coffer/NAME.
Its commits appear on that branch; see 'coffer cd'. Elsewhere, or with --workspace
direct, it works on the current directory itself.`,
		Example: `  coffer exec --create --name parser -- make
  coffer exec -m parser -- go test ./...
  coffer exec --create --base v1.2 --branch fix-1.2 -- make
  coffer x -m par`,
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			if create {
				l := listen(c)
				defer l.stop()
				return execNew(l, store, s, &tree, idle, args)
			}
			if err := atCreation(c); err != nil {
				return err
			}
			tidyTrees(c.Context(), store)
			sb, err := forExec.choose(store, match)
			if err != nil {
				return err
			}
			s.dir = sandbox.StartDir(sb)
			return execIn(c, sb, s, args)
		},
	}
	s.addTo(c)
	s.addExecTo(c)
	tree.addTo(c, &s)
	matchFlag(c, &match)
	exclusive(c, "create match")
	c.Flags().BoolVar(&create, "create", false, "make a new sandbox: in a git worktree of its own, or, where there is no repository, over the current directory")
	addIdleTo(c.Flags(), &idle, "stop the sandbox when nothing has run in it for this `TIME`")
	c.Flags().SetInterspersed(false)
	return c
}

// decidedAtCreation are the flags about a sandbox, and not about a program in it.
var decidedAtCreation = []string{"name", "workspace", "force", "memory", "pids", "cpus", "open-files", "keep-free", "timeout", "nesting", "allow-settings", "image", "sandbox", "yes", "net", "allow", "deny", "host-port", "trust", "idle", "socket-in", "socket-out", "branch", "base", "carry"}

// atCreation refuses flags that are too late for a sandbox that exists.
func atCreation(c *cobra.Command) error {
	if i := slices.IndexFunc(decidedAtCreation, c.Flags().Changed); i >= 0 {
		return ui.Hint(usagef("--%s is decided when a sandbox is made", decidedAtCreation[i]), "make a new one with --create; for its network, see 'coffer policy'")
	}
	return nil
}

func execNew(l *listener, store *sandbox.Store, s settings, tree *treeFlags, idle time.Duration, args []string) error {
	sb, line, err := newSandbox(l, store, &s, tree, idle, args)
	if err != nil {
		return err
	}
	defer line.Close()
	if s.name == "" && terminal.IsTerminal(2) {
		made := "coffer: new sandbox " + sb.Name
		if branch := branchOf(sb); branch != "" {
			made += " on the branch " + terminal.Escape(branch)
		}
		fmt.Fprintln(os.Stderr, made)
	}
	return execOn(l, line, sb, s, args)
}

// newSandbox makes a sandbox that stays, and starts it. Without tree flags, it has no worktree.
func newSandbox(l *listener, store *sandbox.Store, s *settings, tree *treeFlags, idle time.Duration, args []string) (_ *sandbox.Sandbox, _ *wire.Line, err error) {
	defer func() { err = orGivenUp(l.ctx, err) }()
	if idle <= 0 {
		return nil, nil, usagef("--idle must be more than 0")
	}
	planned := &plannedTree{}
	if tree != nil {
		s.decide = func() (err error) {
			planned, err = tree.plan(l.ctx, store, s)
			return err
		}
	}
	also := s.also
	s.also = func(rec *sandbox.Record) error {
		s.mise = s.findMise(rec, planned.top())
		if also == nil {
			return nil
		}
		return also(rec)
	}
	rec, err := s.record(l.ctx, args)
	if err != nil {
		return nil, nil, err
	}
	if err := sandbox.KeepVariables(&rec, s.env); err != nil {
		return nil, nil, usage{err}
	}
	rec.Limits.Idle = idle
	rec.Workspace.Start = planned.start()
	sb, lock, err := store.Create(rec)
	if err != nil {
		return nil, nil, err
	}
	if err := planned.make(l.ctx, sb); err != nil {
		_ = abandon(sb, lock)
		return nil, nil, err
	}
	s.dir = sandbox.StartDir(sb)
	if err := s.mise.furnish(sb); err != nil {
		planned.undo()
		_ = abandon(sb, lock)
		return nil, nil, err
	}
	line, err := supervisor.Reach(l.ctx, sb, lock)
	if err == nil {
		if err = s.setUp(l.ctx, line, sb); err != nil {
			line.Close()
		}
	}
	if err != nil {
		planned.undo()
		giveUp(sb)
		return nil, nil, err
	}
	announceNew(store, sb.ID)
	s.publish = nil // it has them
	return sb, line, nil
}

// execIn runs a program in a sandbox, which is started if need be.
func execIn(c *cobra.Command, sb *sandbox.Sandbox, s settings, args []string) error {
	if err := refuseHalf(sb); err != nil {
		return err
	}
	l := listen(c)
	defer l.stop()
	// A supervisor on its way out may still answer, for as long as programs have to end.
	for end := time.Now().Add(stopGrace + 5*time.Second); ; time.Sleep(10 * time.Millisecond) {
		line, err := supervisor.Reach(l.ctx, sb, nil)
		if err != nil {
			return err
		}
		err = execOn(l, line, sb, s, args)
		line.Close()
		if !errors.Is(err, attach.ErrNotStarted) || l.ctx.Err() != nil {
			return err
		}
		if time.Now().After(end) {
			return ui.Hint(err, "if another version of coffer has started it: 'coffer stop %s', and try again", sb.Name)
		}
	}
}

// execOn runs a program in the running sandbox at the end of the line.
func execOn(l *listener, line *wire.Line, sb *sandbox.Sandbox, s settings, args []string) error {
	e, err := s.exec(sb, args)
	if err != nil {
		return err
	}
	if s.detach && len(args) == 0 {
		return usagef("there is nothing to run: --detach needs a command")
	}
	if err := s.publishOn(line); err != nil {
		return err
	}
	if s.detach {
		err := detach(line, e, s.tty)
		switch {
		case err != nil:
			return unseen(err, sb, args)
		case s.left != nil:
			s.left(sb)
		default:
			fmt.Fprintln(stdout, sb.ID)
		}
		return nil
	}
	defer supervisor.TellSuspended(sb, attach.Note)()
	exit, err := attach.Run(l.ctx, line, e, attach.Options{
		Clipboard: s.clipboard, Last: attach.Notes(sb.HasGit()), Notices: line.Notices(), Keep: s.keep, TakeOver: l.takeOver,
	})
	warnGit(sb)
	if errors.Is(err, attach.ErrLeft) {
		return err
	}
	if !s.keep && failed(exit, err) {
		tellHidden(sb, line)
		noteRefused(exit)
		noteNesting(sb, args)
	}
	return ended(exit, unseen(err, sb, args), "")
}

func unseen(err error, sb *sandbox.Sandbox, argv []string) error {
	var failure *wire.Failure
	if !errors.As(err, &failure) || len(argv) == 0 || !strings.HasSuffix(failure.Message, "command not found in the sandbox") {
		return err
	}
	path, missing := exec.LookPath(argv[0])
	switch {
	case strings.Contains(argv[0], " ") && len(argv) == 1:
		return ui.Hint(err, "a line for the shell needs one: -- sh -c %s", ui.Word(argv[0]))
	case agent.Find(agent.Known(), argv[0]) != nil:
		return ui.Hint(err, "start the agent with 'coffer ai %s'", argv[0])
	case !sb.Image.None():
		return ui.Hint(err, "the image %s does not have it; choose another, or install it inside as root, in a sandbox that stays", sb.Image.Ref)
	case missing != nil:
		return err
	}
	return ui.Hint(err, "the sandbox does not see %s; name its directory in [mounts] of your config and make a new sandbox, or try %s", path, ui.Command("coffer jail --", argv[0]))
}

// noteNesting says what a program that failed may lack, if it makes namespaces, as browsers do for a
// sandbox of their own.
func noteNesting(sb *sandbox.Sandbox, argv []string) {
	line := strings.Join(argv, " ")
	wants := func(name string) bool { return strings.Contains(line, name) }
	if !sb.Nesting && !wants("--no-sandbox") && slices.ContainsFunc([]string{"chrom", "playwright", "puppeteer", "bwrap", "unshare"}, wants) {
		attach.Note("if it could not make a sandbox of its own: that needs a sandbox with --nesting")
	}
}
