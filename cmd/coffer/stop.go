package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func stopCommand() *cobra.Command {
	var force bool
	var which several
	c := &cobra.Command{
		Use:   "stop [NAME…]",
		Short: "Stop sandboxes, keeping what is in them",
		Long: `Stop sandboxes. Programs inside are asked to end and killed after five seconds.
What they changed stays; 'coffer exec' starts the sandbox again. It says which
programs it ended.`,
		Example: "  coffer stop parser\n  coffer stop --all",
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			list, err := which.find(c, store, args)
			return each(list, err, func(sb *sandbox.Sandbox) error { return stop(c.Context(), sb, force) })
		},
	}
	c.Flags().BoolVar(&force, "force", false, "kill at once")
	which.addTo(c)
	return c
}

// stopGrace is how long programs have to end when they are asked to.
const stopGrace = 5 * time.Second

// stop ends a sandbox, waits until it has, and says which programs that ended.
func stop(ctx context.Context, sb *sandbox.Sandbox, force bool) error {
	if !sb.Running() {
		return nil
	}
	if wire.Suspended(sb) {
		if !force {
			return ui.Error(fmt.Sprintf("sandbox %s is suspended, as by Ctrl-Z, and hears nothing", sb.Name), "let it go on with 'fg' in its terminal, or kill it with 'coffer stop --force "+sb.Name+"'")
		}
		if err := wire.KillHung(sb); err != nil {
			return err
		}
	}
	done := ui.Busy("stopping sandbox " + sb.Name)
	defer done()
	grace := stopGrace
	if force {
		grace = 0
	}
	const patience = 5 * time.Second
	asked, killed, process := false, false, 0
	what := settled(sb)
	ended := what.programs()
	deadline := time.Now().Add(grace + patience)
	for try := 1; sb.Running(); try++ {
		// One that is just being started does not listen yet.
		if !asked {
			if session, err := wire.Connect(sb); err == nil {
				defer session.Close()
				process, asked = askToStop(session, grace)
			}
		} else if try%20 == 0 && process != 0 {
			if d := describe(sb, false); d.PID != 0 && d.PID != process { // it was stopped and started
				return nil
			}
		}
		if time.Now().After(deadline) {
			if force && !killed {
				if err := wire.KillHung(sb); err != nil {
					return err
				}
				killed, deadline = true, time.Now().Add(patience)
				continue
			}
			return ui.Error(fmt.Sprintf("sandbox %s does not stop", sb.Name), "kill it with 'coffer stop --force "+sb.Name+"'")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
	done()
	if ended != "" {
		fmt.Fprintf(os.Stderr, "coffer: sandbox %s: ended %s\n", sb.Name, terminal.Escape(ended))
	}
	return nil
}

// askToStop says whether the supervisor was told to end the sandbox, and which process it is.
func askToStop(l *wire.Line, grace time.Duration) (process int, ok bool) {
	s, err := l.Socket()
	if err != nil {
		return 0, false
	}
	return wire.PeerPID(s), wire.WriteMessage(s, wire.Request{Op: wire.OpStop, Stop: &wire.Stop{Grace: grace}}) == nil
}
