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
func printLog(ctx context.Context, out io.Writer, path, none string, from int64, more func() bool) error {
	var f *os.File
	if from == 0 {
		if old, err := os.Open(path + ".1"); err == nil {
			io.Copy(out, old)
			old.Close()
		}
	} else if at, err := os.Open(path); err == nil {
		if _, err := at.Seek(from, io.SeekStart); err == nil {
			f = at
		}
	}
	defer func() { f.Close() }()
	for {
		// The question comes first: what was written before the answer is copied.
		going := more()
		next, err := os.Open(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := copyLog(out, f, next); err != nil {
			return err
		}
		if next != nil {
			f.Close()
			f = next
		}
		if !going {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if f == nil {
		fmt.Fprintln(os.Stderr, "nothing was printed:", none)
	}
	return nil
}

// copyLog copies the rest of the file that was read, and the one that has its name now, if that is another.
func copyLog(out io.Writer, f, next *os.File) error {
	if f != nil {
		if _, err := io.Copy(out, f); err != nil {
			return err
		}
	}
	if next == nil {
		return nil
	}
	if f != nil {
		was, err := f.Stat()
		if err != nil {
			return err
		}
		if is, err := next.Stat(); err == nil && os.SameFile(was, is) {
			at, _ := f.Seek(0, io.SeekCurrent)
			_, err = next.Seek(at, io.SeekStart)
			return err
		}
	}
	_, err := io.Copy(out, next)
	return err
}
