package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/jail"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

type jailSettings struct {
	jail.Policy
	env []string
	ask bool
	mode

	jailNetwork

	own    config.Jail // what the user's own config says, below the flags
	agents []*agent.Agent
	floor  *config.Floor
}

func jailCommand() *cobra.Command {
	var s jailSettings
	c := &cobra.Command{
		Use:   "jail [flags] AGENT [ARG…] | -- COMMAND [ARG…]",
		Args:  cobra.ArbitraryArgs,
		Short: "Run a program in place that can write in one directory only",
		Long: `Run a program on this machine as it is, with its own tools and your files, but so
that it can write only in the current directory, in a /tmp of its own, and, for an
agent, where that keeps its state. Of what it may write, .git and the settings of
agents and editors stay as they are. On the network it reaches what a
sandbox does. It needs neither root nor namespaces; what this host's kernel cannot
enforce is said before the start.

Agents: ` + agentNames(agent.Known()) + `, and those of your own config.
They are told not to ask before they act.`,
		Example: `  coffer jail claude
  coffer jail -C ~/src/project codex exec "fix the tests"
  coffer jail --private --net none -- make test
  coffer jail --allow api.example.com -- ./agent
  coffer jail --explain`,
		RunE: func(c *cobra.Command, args []string) error {
			err := runJail(c.Context(), &s, args, c.ArgsLenAtDash() == 0)
			if inside := outsideOnly(); inside != nil && errors.Is(err, syscall.ENOSYS) { // openat2, for one
				return inside
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&s.Context, "context", "C", "", "the `DIRECTORY` to work in (default: the current one)")
	f.StringArrayVar(&s.Write, "write", nil, "a further `PATH` that can be written to")
	f.BoolVar(&s.Private, "private", false, "show only the system, your tools and what is needed; nothing else of your home")
	f.StringArrayVar(&s.Read, "read", nil, "with --private, a further `PATH` that can be read")
	s.networkFlags.addTo(c, append([]string{jail.NetHost}, policy.Modes...), ", open (anything public) or host (no rules, this machine's own)")
	f.BoolVar(&s.Unix, "unix-sockets", false, "allow Unix sockets even where those of other programs cannot be closed")
	f.BoolVar(&s.ask, "ask", false, "let an agent ask before it acts, as it would outside")
	f.BoolVar(&s.Strict, "strict", false, "do not start if anything cannot be enforced on this host")
	f.BoolVar(&s.InPlace, "in-place", false, "replace this process; no namespaces, and a weaker wall")
	f.BoolVarP(&s.Quiet, "quiet", "q", false, "do not say what cannot be enforced")
	f.BoolVarP(&s.Verbose, "verbose", "v", false, "say all of it, also what no host can enforce yet; on a terminal one line is said otherwise")
	f.BoolVar(&s.Explain, "explain", false, "say what the wall is made of here, what it does not hold and what it would take; run nothing")
	f.StringArrayVarP(&s.env, "env", "e", nil, "set `NAME=VALUE` inside, or pass NAME on: your variable, or else your secret")
	s.mode.addTo(c)
	f.Lookup("sandbox").Usage = "`MODE` is auto (say what this host cannot enforce, the default), require (the same as --strict) or off (no jail, after you have said yes)"
	f.Lookup("yes").Usage = "with --sandbox=off: do not ask"
	f.SetInterspersed(false)
	return c
}

func agentNames(all []*agent.Agent) string { return strings.Join(agent.Names(all), ", ") }

// runJail turns flags and arguments into a policy, and runs it.
func runJail(ctx context.Context, s *jailSettings, args []string, command bool) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return err
	}
	if err := s.program(args, command); err != nil {
		return err
	}
	if s.sandbox == modeOff {
		return s.mode.becomeOff(ctx, s.floor, s.Argv, s.env)
	}
	if err := s.place(); err != nil {
		return err
	}
	if err := s.holdToFloor(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	say := os.Stderr
	if s.Explain {
		say = stdout.To
	}
	s.Brief = !s.Verbose && terminal.IsTerminal(2)
	code, err := jail.Run(s.Policy, say)
	s.told.flush()
	if err == nil && code != 0 {
		err = status(code)
	}
	return err
}

func (s *jailSettings) check() error {
	// What the config says of sandboxes is not about jails.
	if err := s.mode.check(nil); err != nil {
		return err
	}
	s.Strict = s.Strict || s.sandbox == modeRequire
	return nil
}

// configure reads the user's config and the floor. A repository has no say in how it is jailed.
func (s *jailSettings) configure() error {
	l, err := load(wordPlaces())
	if err != nil {
		return err
	}
	s.agents, s.own, s.floor = l.Known(), l.Jail(), l.Floor
	s.Write = append(s.Write, s.own.Write...)
	s.Masks, s.Nested = l.Config.Masks, l.Config.Git.Nested == sandbox.NestedOpen
	s.Strict = s.Strict || s.sandbox == "" && l.Config.Sandbox == modeRequire
	return s.network(l)
}

func (s *jailSettings) holdToFloor() error {
	shown := slices.Concat([]string{s.Context}, s.Write, s.Read)
	err := s.floor.EnforceJail(s.Net == jail.NetHost, !s.Private, shown, s.Home)
	if err == nil && s.Net == jail.NetRules {
		speaks, ferr := s.floor.EnforceNetwork(&s.rules)
		s.must, err = s.must || speaks, ferr
	}
	return err
}

// program finds out what to run, and with which environment.
func (s *jailSettings) program(args []string, command bool) error {
	s.Home = sandbox.Me().Home
	env := ownEnvironment()
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	env["COFFER_SANDBOX"] = "jail"
	if len(args) == 0 && s.Explain {
		args, command = []string{"true"}, true
	}
	switch {
	case len(args) == 0:
		return ui.Hint(usagef("there is nothing to run"), "name an agent (%s), or a command after --", agentNames(s.agents))
	case command:
		s.Argv = args
	default:
		if err := s.agent(args, env); err != nil {
			return err
		}
	}
	err := setVariables(env, s.env)
	s.Env = sortedEnvironment(env)
	return err
}

func (s *jailSettings) agent(args []string, env map[string]string) error {
	known := agent.Find(s.agents, args[0])
	if known == nil {
		return ui.Hint(usagef("there is no agent %q for a jail", args[0]), "agents are %s, and those of your own config; run a command with %s", agentNames(s.agents), ui.Command("coffer jail --", args...))
	}
	s.Agent = jail.NewAgent(known)
	s.Argv = append([]string{s.Agent.Command}, s.own.Args[args[0]]...)
	if !s.ask && s.sandbox != modeOff {
		s.Argv = append(s.Argv, s.Agent.Args...)
	}
	s.Argv = append(s.Argv, args[1:]...)
	for name, v := range s.Agent.Environ(s.Home, os.LookupEnv) {
		env[name] = v
	}
	if s.Net == jail.NetHost {
		passProxies(env)
	}
	if len(known.Hosts) > 0 && s.Net == jail.NetRules {
		s.rules.Rules = append(s.rules.Rules, agentHosts(known))
	}
	return nil
}

// passProxies lets an agent reach its model the way that other programs of the user do.
func passProxies(env map[string]string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"} {
		for _, n := range []string{name, strings.ToLower(name)} {
			if v := os.Getenv(n); v != "" {
				env[n] = v
			}
		}
	}
}

// place finds the context and the directory to start in, the current one if it is in the context.
func (s *jailSettings) place() error {
	here, err := os.Getwd()
	if err == nil {
		here, err = jail.Resolve(here)
	}
	if err != nil && s.Context == "" {
		return ui.Hint(fmt.Errorf("find the current directory: %w", err), "change to a directory that exists, or name one with -C")
	}
	if s.Context == "" {
		s.Context = jail.ContextRoot(here, s.own.ContextRoots)
	}
	if s.Context, err = jail.Resolve(s.Context); err != nil {
		return err
	}
	if why := unsuitable(s.Context, s.Home); why != "" {
		return ui.Error(fmt.Sprintf("%s cannot be a context: %s", s.Context, why), "choose a project's directory with -C")
	}
	places, data := wordPlaces(), dataDir()
	for _, path := range append([]string{s.Context}, s.Write...) {
		file := places.Holds(path)
		if file == "" && config.Leads(path, data) {
			file = data
		}
		if file != "" && path != s.Home { // which is refused for that
			return ui.Error(fmt.Sprintf("programs that write to %s could change %s, which says what sandboxes may do", path, file),
				"choose another directory, or work in a sandbox: coffer run --workspace cow")
		}
	}
	if s.Dir = here; here != s.Context && !safepath.Within(here, s.Context) {
		s.Dir = s.Context
	}
	return nil
}
