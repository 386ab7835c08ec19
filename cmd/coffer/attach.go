package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func attachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "attach [MATCH]",
		Short: "Come back to an agent that runs by itself",
		Long: `Come back to an agent, or another program, that was left with Ctrl-\ twice, that lost
its terminal, or that was started with --detach --tty: it is on this terminal as if it
had been started here. Ctrl-\ twice leaves it again. Several may be attached at a time.

One that was started with --detach alone is watched: what it has printed and what it
prints, until it ends. Ctrl-C or Ctrl-\ stops the watching and not the program.

The exit code is the program's. An agent that has ended goes on with 'coffer ai -m'.`,
		Example: "  id=$(coffer ai --detach --tty claude \"fix issue 42\")\n  coffer attach $id",
		RunE: onSandbox(func(c *cobra.Command, sb *sandbox.Sandbox) error {
			if line, err := wire.Connect(sb); err == nil {
				defer line.Close()
				if st, err := line.Status(false); err == nil && len(st.Programs) > 0 {
					return comeBack(c, sb)
				}
			}
			ctx, stop := interruptible(c)
			defer stop()
			err := watch(ctx, sb)
			if errors.Is(err, givenUp(syscall.SIGQUIT)) {
				return sayLeft(sb)
			}
			return err
		}),
	}
}

func comeBack(c *cobra.Command, sb *sandbox.Sandbox) error {
	if !terminal.IsTerminal(0) || !terminal.IsTerminal(1) {
		return ui.Error("the program in sandbox "+sb.Name+" has a terminal, and there is none here", "attach on a terminal; 'coffer logs' shows how programs ended")
	}
	line, err := wire.Connect(sb)
	if err != nil {
		return err
	}
	defer line.Close()
	restore := func() {}
	if name, last := stillRuns(sb); last {
		restore = entitle(sb, name)
	}
	exit, err := attach.Join(c.Context(), line, attach.Options{Last: attach.Note, Notices: line.Notices()})
	restore()
	if errors.Is(err, attach.ErrLeft) {
		return sayLeft(sb)
	}
	if err == nil {
		sayTurn(sb)
	}
	return ended(exit, err, "")
}

func sayLeft(sb *sandbox.Sandbox) error {
	fmt.Fprintf(os.Stderr, "coffer: %s goes on; back with 'coffer attach %s', end it with 'coffer stop %s'\n", sb.Name, sb.Name, sb.Name)
	return nil
}

// sayTurn is sayOutcome for a sandbox that has, or had, an agent.
func sayTurn(sb *sandbox.Sandbox) {
	if _, err := agent.ReadTrace(sb.Dir()); err == nil {
		sayOutcome(sb)
	}
}

func watch(ctx context.Context, sb *sandbox.Sandbox) error {
	out, finish := stdout.Guarded()
	defer finish()
	if err := printLog(ctx, out, session.LogFile(sb), "no program has been run with --detach", session.LastTurn(sb), func() bool { return hasProgram(sb) }); err != nil {
		return err
	}
	sayTurn(sb)
	return lastStatus(session.LogFile(sb))
}

// hasProgram reports whether programs run in a sandbox. One that runs and does not answer may have some.
func hasProgram(sb *sandbox.Sandbox) bool {
	d := describe(sb, false)
	return d.State != "stopped" && (d.PID == 0 || d.Execs > 0)
}

// lastStatus is how the last program ended, by the last line of a log, which is the supervisor's.
func lastStatus(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return nil // there was no program
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	code := 125
	if word, ok := strings.CutPrefix(lines[len(lines)-1], "coffer: exit status "); ok {
		if n, err := strconv.Atoi(word); err == nil {
			code = n
		}
	}
	return ended(wire.Exit{Code: code}, nil, "")
}
