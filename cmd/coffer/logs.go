package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/spf13/cobra"
)

func logsCommand() *cobra.Command {
	var follow, network bool
	var daemon string
	c := &cobra.Command{
		Use:   "logs [-f] [MATCH]",
		Short: "Show what detached programs, or daemons, printed",
		Long: `Show what programs printed that were started with --detach, or the daemons of a config
file. Before what each printed is a line with its time and command, or prompt; -f begins
with the last one. For what a sandbox reached and was refused, see also 'coffer audit'.`,
		Example: "  id=$(coffer run --detach -- make test)\n  coffer logs -f $id\n  coffer logs parser --daemon db",
		RunE: onSandbox(func(c *cobra.Command, sb *sandbox.Sandbox) error {
			if network {
				return printNetwork(c.Context(), stdout, sb, follow)
			}
			path, none := session.LogFile(sb), "no program has been run with --detach"
			if daemon != "" {
				var err error
				if path, err = daemonLog(sb, daemon); err != nil {
					return err
				}
				none = "the daemon has printed nothing yet"
			}
			out, finish := stdout.Guarded()
			defer finish()
			if !follow {
				return printLog(c.Context(), out, path, none, 0, func() bool { return false })
			}
			from := int64(0)
			if daemon == "" {
				from = session.LastTurn(sb)
			}
			return printLog(c.Context(), out, path, none, from, sb.Running)
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the sandbox stops")
	c.Flags().StringVar(&daemon, "daemon", "", "show what the daemon of this `NAME` printed instead")
	c.Flags().BoolVar(&network, "network", false, "show what programs reached and what was refused instead")
	return c
}

// printLog copies a log from a place on, from 0 with the rotated one before it, and follows it while there is more.
func printLog(ctx context.Context, out io.Writer, path, none string, at int64, more func() bool) error {
	if at == 0 {
		_, _ = copyLog(out, path+".1", 0)
	}
	for {
		// The question comes first: what was written before the answer is copied.
		going := more()
		info, missing := os.Stat(path)
		if missing == nil && info.Size() < at { // it was begun anew
			_, _ = copyLog(out, path+".1", at)
			at = 0
		}
		n, err := copyLog(out, path, at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if at += n; !going {
			if missing != nil {
				fmt.Fprintln(os.Stderr, "nothing was printed:", none)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func copyLog(out io.Writer, path string, at int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(out, f)
}
