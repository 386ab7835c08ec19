// Command coffer runs programs, coding agents above all, in sandboxes.
//
// The rules of its user interface:
//
//   - What a program inside prints goes to stdout and stderr untouched. What coffer
//     itself has to say goes to stderr, except what was asked for: listings, help.
//   - An error is one sentence, lower case, no full stop, saying what happened; then
//     at most one "hint:" line saying what to do.
//   - Exit codes are the program's own, 128+n if signal n ended it; 2 for wrong usage,
//     125 for a failure of coffer itself, 126 and 127 for a program that cannot be
//     executed or is not there. After Ctrl-C we end by SIGINT: see [ui.Exit].
//   - Nothing is asked on a terminal that a flag cannot answer.
//
// The same binary is, inside a sandbox and by other names, the guest agent, sudo, gh, the
// way to root, and the leader of a terminal's session.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func main() {
	name := filepath.Base(os.Args[0])
	if program := programs[name]; program != nil {
		os.Exit(program())
	}
	ui.QuitQuietly()
	switch name {
	case guest.SudoName:
		ui.Exit(printed(sudo(os.Args[1:])))
	case "su", "runuser":
		ui.Exit(printed(su(name, os.Args[1:])))
	case rootfs.DpkgName:
		os.Exit(rootfs.DpkgMain(os.Args[1:]))
	case guest.GHName:
		os.Exit(printed(ghMain(os.Args[1:])))
	}
	ui.Exit(command(os.Args[1:]))
}

func command(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	c, err := root.ExecuteContextC(context.Background())
	if errors.As(err, new(usage)) && ui.HintOf(err) == "" {
		err = ui.Hint(err, "see '%s --help'", c.CommandPath())
	}
	return report(checked(stdout, err))
}

// stdout is where commands print what they were asked for.
var stdout = ui.Stdout

// checked is the error of a command: lost output counts more than success. A reader that has gone away is no loss.
func checked(out *ui.Output, err error) error {
	failed := out.Failed()
	var code status
	var given givenUp
	switch {
	case failed == nil || errors.As(err, &given):
		return err
	case errors.Is(failed, syscall.EPIPE):
		if errors.Is(err, syscall.EPIPE) {
			return nil
		}
		return err
	case err == nil || errors.As(err, &code) || errors.Is(err, failed):
		return fmt.Errorf("the output could not be written: %w", failed)
	}
	return err
}

// printed is checked for a command that has an exit code already.
func printed(code int) int {
	if code == 0 {
		code = report(checked(stdout, nil))
	}
	return code
}

// interruptible returns a context that ends when the user gives up. Its cause is the exit code.
func interruptible(c *cobra.Command) (context.Context, context.CancelFunc) {
	l := listen(c)
	return l.ctx, l.stop
}

// A listener hears the signals by which users give up, until the program takes over.
type listener struct {
	ctx     context.Context // cancelled by the first signal
	cancel  context.CancelCauseFunc
	signals chan os.Signal
	taken   chan struct{} // closed when the program takes over
	done    chan struct{} // closed when it has
}

func listen(c *cobra.Command) *listener {
	l := &listener{signals: make(chan os.Signal, 16), taken: make(chan struct{}), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(c.Context())
	ui.Hear(l.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		defer close(l.done)
		select {
		case s := <-l.signals:
			n, _ := s.(syscall.Signal)
			l.cancel(givenUp(n))
		case <-l.taken:
		case <-l.ctx.Done():
		}
	}()
	return l
}

func (l *listener) stop() { l.cancel(nil) }

// takeOver leaves the signals to the caller. None is lost, and none is heard by both.
func (l *listener) takeOver() chan os.Signal {
	close(l.taken)
	<-l.done
	return l.signals
}

// status is an error that is nothing but the exit code of the program.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// givenUp is the signal by which the user gave up before there was a program.
type givenUp syscall.Signal

func (g givenUp) Error() string { return g.Unwrap().Error() }
func (g givenUp) Unwrap() error { return status(128 + int(g)) }

// orGivenUp returns the user's interrupt instead of err if there was one.
func orGivenUp(ctx context.Context, err error) error {
	var code status
	var given givenUp
	if err == nil || errors.As(err, &code) || !errors.As(context.Cause(ctx), &given) {
		return err
	}
	return given
}

// usage is an error in how coffer was called.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// report prints an error the way all errors are printed.
func report(err error) int {
	var code status
	var given givenUp
	var failure *wire.Failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &given) && syscall.Signal(given) == syscall.SIGINT:
		ui.Interrupted(false)
		return 128 + int(given)
	case errors.As(err, &code):
		return int(code)
	}
	// Parts may come from inside a sandbox. What is quoted has its backslashes already.
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = terminal.Content(legible(lines[i]))
	}
	fmt.Fprintln(os.Stderr, "coffer:", strings.Join(lines, "\n  "))
	if h := ui.HintOf(err); h != "" {
		fmt.Fprintln(os.Stderr, "hint:", terminal.Escape(h))
	}
	if errors.As(err, &failure) {
		return failure.Code
	}
	if errors.As(err, new(usage)) {
		return 2
	}
	return 125
}

// legible is a line, or its ends if it is longer than any path.
func legible(line string) string {
	const longest, end = 4096, 300
	if len(line) <= longest {
		return line
	}
	return strings.ToValidUTF8(line[:end], "") + "…" + strings.ToValidUTF8(line[len(line)-end:], "")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "coffer",
		Short: "Run coding agents, or anything else, in a sandbox",
		Long: `Coffer runs a program in a sandbox: it sees this machine's tools and the
current directory, and nothing else of yours. No root, no daemon, nothing to
install.`,
		Example: `  coffer run -- make test         a throw-away sandbox over this directory
  coffer ai claude "fix the bug"  a coding agent, on a branch of its own
  coffer exec --create -- bash    a sandbox that stays
  coffer demo                     see what it stops`,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(wrongFlag)
	// It is cobra's, with flags wrapped, quotes as ours, and what MATCH is.
	cobra.AddTemplateFunc("match", aboutMatch)
	root.SetUsageTemplate(strings.NewReplacer(".FlagUsages", ".FlagUsagesWrapped 79", `Use "{{.CommandPath}} [command] --help" for more information`, "Use '{{.CommandPath}} [command] --help' for more",
		"{{if gt (len .Aliases) 0}}", "{{match .}}{{if gt (len .Aliases) 0}}").Replace(root.UsageTemplate()))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", filled(cmp.Or(c.Long, c.Short)), c.UsageString())
	})
	root.SetHelpCommand(helpCommand())
	cobra.EnableCommandSorting = false // the order here is the order of a day
	group(root, "Run something:", runCommand(), execCommand(), aiCommand(), jailCommand())
	group(root, "See what was done, and take it:",
		diffCommand(), reviewCommand(), mergeCommand(), rebaseCommand(), prCommand(),
		checkpointsCommand(), undoCommand(), forkCommand(), applyCommand(), discardCommand())
	group(root, "Sandboxes:",
		listCommand(), showCommand(), statusCommand(), attachCommand(), logsCommand(), cdCommand(), portForwardCommand(),
		includeCommand(), unincludeCommand(),
		stopCommand(), removeCommand(), gcCommand())
	group(root, "What they may:", policyCommand(), auditCommand(), masksCommand(),
		initCommand(), configCommand(), trustCommand(), presetsCommand(), imagesCommand(), secretCommand())
	group(root, "Coding agents:", agentsCommand(), loginCommand())
	group(root, "Coffer itself:", demoCommand(), doctorCommand(), versionCommand(), completionCommand(), superviseCommand())
	root.SetHelpCommandGroupID("Coffer itself:")
	root.AddCommand(upstreamCommand(), &cobra.Command{
		Use: git.HookCommand + " FOLDER HOOK [ARG…]", Hidden: true, Args: cobra.MinimumNArgs(2), DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error { return gitHook(c.Context(), args[0], args[1], args[2:]) },
	})
	takesWords(root)
	return root
}

// helpCommand is cobra's, but for words that are no command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		Example: "  coffer help exec\n  coffer help policy allow",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if at, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range at.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknown(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			at.InitDefaultVersionFlag()
			return at.Help()
		},
	}
}

// group adds commands under a heading of the help.
func group(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, c := range commands {
		c.GroupID = heading
		root.AddCommand(c)
	}
}
