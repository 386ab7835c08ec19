package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "run [flags] [--] [COMMAND [ARG…]]",
		Short: "Run a command in a throw-away sandbox over the current directory",
		Long: `Run a command in a sandbox that is made for it and removed when it ends. The
command sees this machine's tools and the current directory, at its own path; in a git
repository, all of that. What it writes there lands (see --workspace for other ways). In
a repository it can commit, to a branch coffer/NAME; your own branches, index and stash
it cannot reach.
Without a command, a shell is run.`,
		Example: `  coffer run -- npm test
  coffer run --workspace cow -- ./untrusted.sh
  coffer run --memory 2g --timeout 10m -- make
  coffer run --image debian:12 -- make
  coffer run --sandbox=require -- make test`,
		RunE: func(c *cobra.Command, args []string) error {
			l := listen(c)
			defer l.stop()
			if s.detach {
				return orGivenUp(l.ctx, runDetached(l, s, args))
			}
			return orGivenUp(l.ctx, run(l, s, args))
		},
	}
	s.addTo(c)
	s.addExecTo(c)
	c.Flags().BoolVar(&s.take, "take", false, "move your branch to what was committed inside, if that is a fast-forward; no file changes")
	c.Flags().SetInterspersed(false)
	return c
}

// run is its own supervisor: the sandbox lives exactly as long as this process.
func run(l *listener, s settings, args []string) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	rec, err := s.record(l.ctx, args)
	if errors.Is(err, errOff) {
		return s.runOff(l, args)
	}
	if err != nil {
		return err
	}
	// Changes that wait to be applied must not go with the sandbox.
	rec.Once = rec.Workspace.Mode == sandbox.WorkspaceCOW
	rec.Ephemeral = !rec.Once
	sb, lock, err := store.Create(rec)
	if err != nil {
		return err
	}
	s.dir = sandbox.StartDir(sb)
	exec, err := s.exec(sb, args)
	var super *supervisor.Supervisor
	if err == nil {
		started := ui.Busy("starting the sandbox")
		super, err = supervisor.Start(l.ctx, defaultEngine(), sb)
		started()
	}
	if err != nil {
		_ = abandon(sb, lock)
		return s.inJail(l, &rec, args, err)
	}
	if err := s.setUp(l.ctx, super, sb); err != nil {
		super.Close()
		return errors.Join(err, abandon(sb, lock))
	}
	defer leave(store, super, lock)
	announceNew(store, sb.ID)
	if socket, err := super.Listen(); err == nil { // a run is none the worse without
		defer socket.Close()
	}
	super.LookBack(historyPlace(sb))
	options := attach.Options{Clipboard: s.clipboard, Stop: func() { super.Stop(0, "you asked three times") }, TakeOver: l.takeOver, Notices: super}
	var exit wire.Exit
	notes := super.Foreground(&exec, func() { exit, err = attach.Run(l.ctx, super, exec, options) })
	for _, n := range notes {
		attach.Note(n)
	}
	why := super.Why()
	if failed(exit, err) {
		files, settings := super.Hidden()
		if text := hiddenHere(sb.Workspace.Path, files); text != "" {
			attach.Note(text + "; see 'coffer masks'")
		}
		if len(settings) > 0 {
			attach.Note("read-only here: " + ui.Few(settings) + "; --allow-settings opens them")
		}
		noteRefused(exit)
		noteNesting(sb, args)
	}
	super.Finish() // first: the kernel takes its time to end the namespaces
	if len(notes) > 0 && sb.Workspace.Mode == sandbox.WorkspaceDirect {
		s.take = s.take || s.conf.Config.Git.Take
		s.landCommits(l, super)
	}
	return ended(exit, unseen(err, sb, args), why)
}

// ended turns the end of a program into that of the command. why is what ended the sandbox, if coffer did.
func ended(exit wire.Exit, err error, why string) error {
	if errors.Is(err, attach.ErrInsisted) {
		why = err.Error()
	}
	if why != "" {
		fmt.Fprintln(os.Stderr, "coffer:", why)
		// Whatever else went wrong is because of that, unless the user had given up.
		var given status
		if err != nil && !errors.As(err, &given) {
			return status(137)
		}
	}
	if err != nil {
		return err
	}
	if code := exit.Status(); code != 0 {
		return status(code)
	}
	return nil
}

// leave removes a sandbox that was made for one run, unless changes wait in it. Errors do not change the exit code.
func leave(store *sandbox.Store, super *supervisor.Supervisor, lock *sandbox.Lock) {
	sb := super.Sandbox
	defer func() {
		for _, line := range super.LastWords() {
			attach.Note(line) // which escapes it
		}
	}()
	if sb.Once {
		super.Close()
		n, err := waiting(sb)
		if err != nil || n > 0 {
			lock.Release()
			report(err)
			fmt.Fprintf(os.Stderr, "coffer: %s waiting in sandbox %s; see 'coffer diff %s', then 'coffer apply %s' or 'coffer discard %s'\n",
				count(n, "change"), sb.Name, sb.Name, sb.Name, sb.Name)
			return
		}
	}
	if ownRepository(sb) {
		fmt.Fprintln(os.Stderr, "coffer: the repository that was made inside is gone with its commits, the files stay; to have one, 'git init' first")
	}
	super.Close()
	super.ForgetGit()
	err := lock.Remove(purgeSupervised)
	warnGit(sb)
	if err != nil {
		err = store.Sweep(purge)
	}
	report(err)
}

// warnGit warns of a workspace that looks like a git directory afterwards: git would run what its config says.
func warnGit(sb *sandbox.Sandbox) {
	if sb.MadeGit && rootfs.IsGitDir(sb.Workspace.Path) {
		fmt.Fprintf(os.Stderr, "coffer: warning: the sandbox made %s look like a git directory (HEAD, objects, refs); remove these before you run git there\n", terminal.Escape(sb.Workspace.Path))
	}
}

func waiting(sb *sandbox.Sandbox) (int, error) {
	defer ui.Busy("looking for changes")()
	return countWaiting(context.Background(), sb)
}

// countWaiting is waiting without a word, for a listing of many.
func countWaiting(ctx context.Context, sb *sandbox.Sandbox) (int, error) {
	list, err := changes.List(ctx, sb.Workspace.Path, sb.Upper())
	return len(list), none(err)
}

func runDetached(l *listener, s settings, args []string) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return usagef("there is nothing to run: a detached sandbox needs a command")
	}
	sb, line, err := newSandbox(l, store, &s, nil, time.Nanosecond, args) // it is there for this one command
	if err != nil {
		return err
	}
	defer line.Close()
	err = execOn(l, line, sb, s, args)
	if err != nil {
		giveUp(sb)
	}
	return err
}

// giveUp removes a new sandbox that never did anything, whose supervisor may be starting or ending.
func giveUp(sb *sandbox.Sandbox) {
	_ = stop(context.Background(), sb, true)
	defer holdIncluded(sb)()
	for range 100 {
		if err := sb.Remove(purge); !errors.Is(err, sandbox.ErrRunning) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// detach starts a program and does not wait for it. With tty it gets a terminal of its own, as large as ours.
func detach(o wire.Opener, e wire.Exec, tty bool) error {
	e.Log, e.Keep = true, tty
	if cols, rows, err := terminal.Size(0); tty && err == nil {
		e.TTY = &wire.Size{Rows: uint16(rows), Cols: uint16(cols)}
	}
	p, err := wire.Start(o, e)
	if err != nil {
		return fmt.Errorf("%w: %w", attach.ErrNotStarted, err)
	}
	defer p.Close()
	if err = p.WaitStart(); errors.Is(err, wire.ErrGone) {
		err = fmt.Errorf("%w: %w", attach.ErrNotStarted, err)
	}
	return err
}
