package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settings are the flags by which a sandbox is made and a program run in it.
type settings struct {
	name      string
	workspace string
	force     bool
	memory    string
	pids      int
	cpus      float64
	openFiles int
	timeout   time.Duration
	keepFree  string
	nesting   bool

	allowSettings bool
	image         string
	// fromConfig says that the image is one of the config's, not of a flag.
	fromConfig bool
	networkFlags
	offline  bool // by flag: the config's rules do not count
	trust    bool
	netAsked bool                        // by flag: a network with rules
	alone    bool                        // nothing that a repository's config says counts
	also     func(*sandbox.Record) error // what a command adds that has no flag
	decide   func() error                // what the workspace is to be, when the config is known
	told     bool                        // it is one of several, and what goes for all was said with the first

	mode
	openings

	mise *mise          // the host's, if a new sandbox is to have its tools
	conf *config.Loaded // what the files say, once they are read

	env       []string
	root      bool
	dir       string // where the program starts, if not in the workspace itself
	detach    bool
	left      func(*sandbox.Sandbox) // says where a detached program is; nil prints the id
	tty       bool                   // a detached program gets a terminal of its own
	keep      bool                   // on a terminal, the program outlives it
	clipboard bool
	take      bool // what was committed inside becomes the user's branch
}

func (s *settings) addTo(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.workspace, "workspace", "", "how the current directory, or the repository that it is in, is shown: `MODE` is direct (the default), worktree (a git worktree of its own), cow (changes wait for 'coffer apply') or none")
	f.StringVar(&s.name, "name", "", "the sandbox's `NAME` (default: a random one)")
	_ = c.RegisterFlagCompletionFunc("workspace", cobra.FixedCompletions([]string{"direct", "worktree", "cow", "none"}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&s.force, "force", false, "accept a workspace that coffer thinks is a mistake")
	s.addLimitsTo(f)
	s.networkFlags.addTo(c, policy.Modes, " or open (anything public)")
	f.BoolVar(&s.trust, "trust", false, "agree, this once, to what coffer.toml asks for; see 'coffer trust'")
	f.BoolVar(&s.nesting, "nesting", false, "let programs make namespaces, as bwrap and browsers do (a weaker wall)")
	f.BoolVar(&s.allowSettings, "allow-settings", false, "let programs change the settings of editors, agents, hooks and shells in your directory, by which programs outside run code")
	f.StringVar(&s.image, "image", "", "have the tools of an OCI `IMAGE` inside, not this machine's: debian:12, oci:DIR, or none for this machine's; see 'coffer images'")
	_ = c.RegisterFlagCompletionFunc("image", completeImage)
	s.mode.addTo(c)
	s.openings.addTo(c)
}

func (s *settings) addExecTo(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&s.env, "env", "e", nil, "set `NAME=VALUE` inside, or pass NAME on: your variable, or else your secret")
	f.BoolVar(&s.root, "root", false, "run as root of the sandbox")
	f.BoolVarP(&s.detach, "detach", "d", false, "leave it running and print its id; see 'coffer logs'")
	f.BoolVar(&s.tty, "tty", false, "with --detach: on a terminal of its own, to be seen and typed to with 'coffer attach'")
	f.BoolVar(&s.clipboard, "clipboard", false, "let programs write to the terminal's clipboard")
	c.PreRunE = func(*cobra.Command, []string) error {
		if f := c.Flags(); s.tty && !s.detach && !f.Changed("number") {
			return usagef("--tty requires --detach")
		}
		return nil
	}
}

// record is the sandbox that the flags ask for.
func (s *settings) record(ctx context.Context, args []string) (rec sandbox.Record, err error) {
	s.netAsked = s.net != "" && s.net != "none"
	if err := s.configure(ctx); err != nil {
		return rec, err
	}
	if s.sandbox == modeOff {
		return rec, errOff
	}
	if err := s.insist(); err != nil {
		return rec, err
	}
	if s.decide != nil {
		if err := s.decide(); err != nil {
			return rec, err
		}
	}
	rec = sandbox.Record{Name: s.name, Nesting: s.nesting, AllowSettings: s.allowSettings, Command: printable(args)}
	if s.name != "" {
		if err := sandbox.CheckName(s.name); err != nil {
			return rec, usage{err}
		}
	}
	if rec.Limits, err = s.limits(); err != nil {
		return rec, err
	}
	if rec.Network, err = networkFor(s.net, s.hostPorts); err != nil {
		return rec, err
	}
	if rec.Network.Rules, err = s.rules(); err != nil {
		return rec, err
	}
	if s.workspace == sandbox.WorkspaceTree {
		rec.Workspace.Mode = s.workspace // the store says where
	} else {
		rec.Workspace, err = workspaceHere(s.workspace, s.force)
	}
	// Said here already, it need not be saved when the sandbox starts.
	rec.MadeGit = supervisor.NeedsGit(rec.Workspace)
	if err != nil {
		return rec, err
	}
	if err := s.describe(&rec); err != nil {
		return rec, err
	}
	if err := s.takeImage(ctx, &rec); err != nil {
		return rec, err
	}
	if s.also != nil {
		if err := s.also(&rec); err != nil {
			return rec, err
		}
	}
	return rec, s.complete(&rec)
}

func (s *settings) limits() (l sandbox.Limits, err error) {
	if s.memory != "" {
		if l.Memory, err = limits.ParseMemory(s.memory); err != nil {
			return l, usage{err}
		}
	}
	if s.keepFree != "" {
		if l.KeepFree, err = limits.ParseKeepFree(s.keepFree); err != nil {
			return l, usage{err}
		}
		if l.KeepFree == limits.DefaultKeepFree {
			l.KeepFree = 0 // that holds anyway, and is nothing that a jail lacks
		}
	}
	l.Pids, l.CPUs, l.OpenFiles, l.Timeout = s.pids, s.cpus, s.openFiles, s.timeout
	return l, nil
}

func (s *settings) exec(sb *sandbox.Sandbox, args []string) (wire.Exec, error) {
	e, err := sandbox.NewExec(sb, args, s.env, s.root)
	if errors.Is(err, sandbox.ErrVariable) {
		err = usage{err}
	}
	if s.dir != "" {
		e.Dir = s.dir
	}
	return e, err
}

// printable shortens a command line for the record.
func printable(args []string) []string {
	const most = 200
	var out []string
	for _, a := range args {
		if len(a) > most {
			a = a[:most]
		}
		if out = append(out, strings.ToValidUTF8(a, "\uFFFD")); len(out) == 20 {
			break
		}
	}
	return out
}

// outsideOnly is the error of commands that do not work in a sandbox.
func outsideOnly() error {
	if os.Getenv("COFFER_SANDBOX") == "" {
		return nil
	}
	return ui.Error("this is a sandbox already", "run the program as it is; sandboxes are made and managed outside")
}

// openStore opens the store of sandboxes and puts right what dead processes left.
func openStore() (*sandbox.Store, error) {
	if err := outsideOnly(); err != nil {
		return nil, err
	}
	store, err := peekStore()
	if err != nil {
		return nil, err
	}
	store.Mend = supervisor.Forget
	// What cannot be swept now may be later; it must not stop a healthy sandbox.
	_ = store.Sweep(purge)
	return store, nil
}

// peekStore opens the store as it is.
func peekStore() (*sandbox.Store, error) {
	dir, err := sandbox.DefaultDir()
	if err != nil {
		return nil, err
	}
	return sandbox.Open(dir)
}

// addLimitsTo adds flags that are checked when they are read: a limit of 0 is a mistake, and not
// the same as none.
func (s *settings) addLimitsTo(f *pflag.FlagSet) {
	f.Func("memory", "memory `LIMIT`, such as 512m or 2g", func(text string) error {
		s.memory = text
		_, err := limits.ParseMemory(text)
		return err
	})
	f.Func("pids", "`LIMIT` on processes and threads", whole(&s.pids, limits.CheckPids))
	f.Func("cpus", "`LIMIT` on processors, such as 1.5", func(text string) (err error) {
		if s.cpus, err = strconv.ParseFloat(text, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return err
		}
		return limits.CheckCPUs(s.cpus)
	})
	f.Func("open-files", "`LIMIT` on open files of one process", whole(&s.openFiles, limits.CheckOpenFiles))
	f.Func("keep-free", "tell you, and freeze a sandbox with a cgroup, when less than this `SIZE` is free on a disk that it writes to: 1g if you do not say, 0 for never", func(text string) error {
		s.keepFree = text
		_, err := limits.ParseKeepFree(text)
		return err
	})
	f.Func("timeout", "end the sandbox after this `TIME`, such as 10m", func(text string) (err error) {
		if s.timeout, err = time.ParseDuration(text); err == nil && s.timeout <= 0 {
			err = &limits.WrongError{What: text + " leaves no time to run", Want: "want more than 0; for no limit, leave it out"}
		}
		return err
	})
}

// addIdleTo adds --idle. Its default is said as people write it, and not as Go does.
func addIdleTo(f *pflag.FlagSet, to *time.Duration, usage string) {
	f.DurationVar(to, "idle", idleDefault, usage)
	f.Lookup("idle").DefValue = "10m"
}

func whole(to *int, check func(int) error) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.Atoi(text); err != nil {
			return err
		}
		return check(*to)
	}
}
