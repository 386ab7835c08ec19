package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func chooseKept(find func(*sandbox.Store, string) (*sandbox.Sandbox, error), match string) (*sandbox.Store, *sandbox.Sandbox, error) {
	store, err := openStore()
	if err != nil {
		return nil, nil, err
	}
	sb, err := find(store, match)
	if err != nil {
		return nil, nil, err
	}
	if sb.Workspace.Mode != sandbox.WorkspaceTree && (!sb.HasGit() || sb.Ephemeral) {
		return nil, nil, supervisor.NoCheckpoints(sb)
	}
	return store, sb, nil
}

func checkpointsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "checkpoints [MATCH]",
		Short: "List the moments to which a sandbox's files can be taken back",
		Long: `List the checkpoints of a sandbox that works in a git repository. Every command that
changed files, or what is committed, leaves one, and so does what you changed between
two commands. One number is a moment of all its repositories, the included ones too.
Kept are the first and the newest hundred. Files that git ignores and files of more
than 64 MiB are not in them.`,
		Example: "  coffer checkpoints parser\n  coffer checkpoints parser --json | jq '.[-1].n'",
		RunE: func(c *cobra.Command, args []string) error {
			_, sb, err := chooseKept(forName.choose, first(args))
			if err != nil {
				return err
			}
			all, restoring, err := checkpoint.Read(sb.Dir())
			if err != nil {
				return err
			}
			if restoring != 0 {
				fmt.Fprintf(os.Stderr, "coffer: going back to checkpoint %d was interrupted; the next start of the sandbox finishes it\n", restoring)
			}
			if asJSON {
				if all == nil {
					all = []checkpoint.Checkpoint{}
				}
				return printJSON(all)
			}
			t := ui.Table{{"N", "TIME", "FILES", "COMMIT", "AFTER"}}
			for _, c := range all {
				files := strconv.Itoa(c.Changed())
				if c.Left > 0 {
					files += fmt.Sprintf(" (%d not kept)", c.Left)
				}
				t.Add(strconv.Itoa(c.N), c.Time.Local().Format(time.DateTime), files, fmt.Sprintf("%.10s", c.Head), shortCommand(c))
			}
			return t.Print(stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

// shortCommand is what a checkpoint was taken after, for a line, without our wrapper of setup scripts.
func shortCommand(c checkpoint.Checkpoint) string {
	command := strings.TrimPrefix(c.Command, strings.Join(runScript, " ")+" ./")
	if program, rest, _ := strings.Cut(command, " "); strings.HasPrefix(program, "/") {
		command = filepath.Base(program) + " " + rest
	}
	return terminal.Escape(ui.Clip(command, 60))
}

// moment says when a checkpoint was taken, and after what. Words in brackets are coffer's own.
func moment(c checkpoint.Checkpoint, now time.Time) string {
	at, now := c.Time.Local(), now.Local()
	when := at.Format("2006-01-02 15:04:05")
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		when = at.Format("15:04:05")
	}
	what := "after '" + shortCommand(c) + "'"
	if inner, ok := strings.CutPrefix(c.Command, "("); ok && strings.HasSuffix(inner, ")") {
		what = shortCommand(checkpoint.Checkpoint{Command: strings.TrimSuffix(inner, ")")})
	}
	return when + ", " + what
}

func undoCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "undo NAME [N]",
		Short: "Take a sandbox's files back to a checkpoint",
		Long: `Take the files of a sandbox, and the commit that is checked out in it, back to
checkpoint N, or to the one before the last: to before the last command that changed
something. Repositories that it includes go back with it. What is there now is a
checkpoint too, so an undo can be undone, and commits are not lost. Files that git
ignores stay as they are; nothing is staged afterwards.

In a direct workspace the files are your own. What you changed there yourself, between
two commands, is taken back only with --force. While a program runs, it asks.`,
		Example: "  coffer undo parser\n  coffer undo parser 3\n  coffer undo parser --force",
		RunE: func(c *cobra.Command, args []string) error {
			n := 0
			if len(args) == 2 {
				var err error
				if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
					return ui.Hint(usagef("%q is not the number of a checkpoint", args[1]), "see 'coffer checkpoints %s'", args[0])
				}
			}
			_, sb, err := chooseKept(func(store *sandbox.Store, name string) (*sandbox.Sandbox, error) {
				return forName.exactly(c, store, name)
			}, args[0])
			if err != nil {
				return err
			}
			return undo(c, sb, n, force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "take back what you changed yourself in a directory of yours, too, and do not ask while a program runs")
	return c
}

// undo has the sandbox's supervisor take it back; it is started if it does not run.
func undo(c *cobra.Command, sb *sandbox.Sandbox, n int, force bool) error {
	line, err := supervisor.Reach(c.Context(), sb, nil)
	if err != nil {
		return err
	}
	defer line.Close()
	bringRunning(sb)
	if !force {
		if err := agreeToUndo(c, line, sb, n); err != nil {
			return err
		}
	}
	done, err := supervisor.Undo(line, n, force)
	for _, f := range done.Failed {
		fmt.Fprintln(os.Stderr, "coffer: not restored:", terminal.Escape(f))
	}
	if err != nil {
		return err
	}
	bringRunning(sb)
	if done.Running > 0 {
		fmt.Fprintf(os.Stderr, "coffer: %s running in the sandbox; files that are open there may be written again\n", are(done.Running, "program"))
	}
	if done.Checkpoint == nil || done.To == nil {
		return errors.New("the supervisor did not say what it did")
	}
	fmt.Fprintf(stdout, "sandbox %s is back at checkpoint %d (%s); %s changed\nundo this with 'coffer undo %s'\n", sb.Name, done.To.N, moment(*done.To, time.Now()), count(done.Checkpoint.Changed(), "file"), sb.Name)
	if len(done.Failed) > 0 {
		return ui.Error("some files could not be restored", "see above; what they are now is in the last checkpoint")
	}
	return nil
}

// agreeToUndo asks before files are taken back under a running program, which may not have written its work yet.
func agreeToUndo(c *cobra.Command, line *wire.Line, sb *sandbox.Sandbox, n int) error {
	st, err := line.Status(false)
	if err != nil || st.Execs == 0 {
		return err
	}
	if _, err := supervisor.Checkpoint(line, git.Meanwhile); err != nil {
		return err
	}
	all, _, err := checkpoint.Read(sb.Dir())
	if err != nil || n == 0 && len(all) < 2 {
		return err // which the supervisor refuses
	}
	what := fmt.Sprintf("%s running in sandbox %s, and undo would take back %s", are(st.Execs, "program"), sb.Name, takenBack(all, n))
	return agree(c, "coffer: "+what+".\nTake it back?", ui.Error(what, "wait, end it with 'coffer stop "+sb.Name+"', or insist with --force"))
}

// takenBack says what an undo to checkpoint n, or to the one before the last, would take back.
func takenBack(all []checkpoint.Checkpoint, n int) string {
	if n != 0 {
		return fmt.Sprintf("all that was changed after checkpoint %d", n)
	}
	before, last := all[len(all)-2], all[len(all)-1]
	if last.Command == git.Meanwhile {
		return "what was changed since " + before.Time.Local().Format("15:04:05")
	}
	return fmt.Sprintf("what '%s' changed (checkpoint %d, %s)", shortCommand(last), last.N, last.Time.Local().Format("15:04:05"))
}
