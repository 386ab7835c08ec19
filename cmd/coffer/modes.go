package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/jail"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// What to do where the best wall cannot be had.
const (
	modeAuto    = "auto"    // take the strongest that is accepted, and say what is lost
	modeRequire = "require" // fail
	modeOff     = "off"     // no wall at all, after a typed yes
)

// mode is the flags about it, and what the config says of the same.
type mode struct {
	sandbox   string // one of the above; auto if empty
	isolation string // the weakest wall that is accepted
	yes       bool
}

func (m *mode) addTo(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&m.sandbox, "sandbox", "", "`MODE` is auto (the strongest wall this host has, the default), require (fail if that is not the best) or off (none, after you have said yes)")
	_ = c.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions([]string{modeAuto, modeRequire, modeOff}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVarP(&m.yes, "yes", "y", false, "where the sandbox is off, by --sandbox or your config: do not ask")
}

// check refuses an unknown mode, and --yes where nothing switches the sandbox off. l may be nil.
func (m *mode) check(l *config.Loaded) error {
	switch m.sandbox {
	case "", modeAuto, modeRequire, modeOff:
	default:
		return usagef("there is no mode %q: --sandbox is auto, require or off", m.sandbox)
	}
	off := m.sandbox == modeOff || m.sandbox == "" && l != nil && l.Config.Sandbox == modeOff
	if m.yes && !off {
		return usagef("--yes is an answer to --sandbox=off, or to a config of your own that says so")
	}
	return nil
}

// errOff is for commands that make a sandbox and are told not to.
var errOff = ui.Error("there is no sandbox to make: it is switched off, by --sandbox or your config", "say --sandbox=auto; without a sandbox there is only 'coffer run'")

// insist fails if all walls are required and one is missing; otherwise it names those that are missing.
func (m *mode) insist() error {
	for _, c := range missingWalls() {
		if m.sandbox == modeRequire && m.isolation != "jail" {
			return ui.Error(fmt.Sprintf("the sandbox is required to have all its walls, and one is missing: %s: %s", c.What, c.Detail), c.Fix)
		}
		fmt.Fprintf(os.Stderr, "coffer: taking the %s engine, of which one wall is lost: %s: %s\n", defaultEngine().Name(), c.What, c.Detail)
	}
	return nil
}

// wall says by what a sandbox is held on this host.
func wall() string {
	text := defaultEngine().Name()
	for _, c := range missingWalls() {
		text += ", without " + c.What
	}
	return text
}

// runOff runs a program as the user would, with nothing around it.
func (s *settings) runOff(l *listener, args []string) error {
	if s.root {
		return usagef("--root is about a sandbox, and with --sandbox=off there is none")
	}
	if s.image != "" && s.image != config.NoImage {
		return ui.Error(fmt.Sprintf("the tools are to be those of the image %s, and with --sandbox=off there is no place for them", s.image), "say --image none, or run it in a sandbox")
	}
	own, err := s.conf.Environment()
	if err != nil {
		return err
	}
	return s.mode.becomeOff(l.ctx, s.conf.Floor, args, append(own, s.env...))
}

// becomeOff warns, asks, and replaces this process by the program.
func (m *mode) becomeOff(ctx context.Context, floor *config.Floor, args, variables []string) error {
	if err := floor.EnforceOff(); err != nil {
		return err
	}
	env := map[string]string{}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	if err := setVariables(env, variables); err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{sandbox.Me().Shell}
	}
	warn(fmt.Sprintf("no sandbox: %s runs as you, with all your files, keys and network", args[0]))
	if !m.yes {
		// The whole word: a key that was hit by mistake is none.
		answer, err := ui.Ask(ctx, "Type yes to run it without a sandbox: ")
		switch {
		case errors.Is(err, ui.ErrNoTerminal):
			return ui.Error("running without a sandbox needs your yes, and there is no terminal to ask you on", "say --yes, or run it in a sandbox with --sandbox=auto")
		case err != nil:
			return err
		case answer != "yes":
			return ui.Error("not run: you did not type yes", "run it in a sandbox with --sandbox=auto")
		}
	}
	here, err := currentDir()
	if err != nil {
		return err
	}
	return jail.Off(args, here, sortedEnvironment(env))
}

// inJail runs a program in a jail if this host cannot boot a sandbox and a jail can do what was asked for. Otherwise
// it returns the failure.
func (s *settings) inJail(l *listener, rec *sandbox.Record, args []string, failed error) error {
	inside := os.Getenv("COFFER_SANDBOX") != "" // where a jail could not be had either
	if s.sandbox == modeRequire && s.isolation != "jail" || s.isolation == "container" || inside {
		return failed
	}
	// A machine, or a user, that has too little of something just now may still have its walls.
	for _, short := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN} {
		if errors.Is(failed, short) {
			return failed
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	if l.ctx.Err() != nil || defaultEngine().Probe(ctx).Usable || l.ctx.Err() != nil {
		return failed // it was something else, or the user gave up
	}
	if wants := beyondJail(s, rec); len(wants) > 0 {
		return ui.Hint(fmt.Errorf("%w\na jail, which this host could have instead, cannot do what is asked for: %s", failed, strings.Join(wants, ", ")), "%s", ui.HintOf(failed))
	}
	if len(args) == 0 {
		args = []string{sandbox.Me().Shell}
	}
	j := jailSettings{}
	j.Private, j.given = true, &rec.Network
	for _, m := range rec.Mounts { // copies of files of the home: here, the files themselves
		j.Read = append(j.Read, m.Source)
	}
	// Rules that were asked for are not replaced by fewer.
	j.must = rec.Network.Mode != standard || len(rec.Network.Rules) > 0 || s.netAsked
	own, err := s.conf.Environment()
	if err != nil {
		return err
	}
	j.env = append(own, s.env...)
	why, _, _ := strings.Cut(failed.Error(), "\n")
	fmt.Fprintln(os.Stderr, "coffer: this host cannot boot a sandbox:", terminal.Escape(why))
	fmt.Fprintln(os.Stderr, "coffer: taking a jail instead, a weaker wall; lost are:\n"+bullets(lostInJail(!rec.Network.None())))
	l.takeOver()
	return runJail(l.ctx, &j, args, true)
}

// lostInJail is what a sandbox has and a jail has not.
func lostInJail(network bool) []string {
	lost := []string{
		"a root file system, home and root of its own: programs see this machine's, and change only the workspace",
		"limits on memory, processes and time, and the means to list, join and stop it",
		"the read-only .git: commits are possible, hooks and config stay closed where this host can do that",
	}
	if network {
		lost = append(lost, "rules for the network by name, unless this host has network namespaces: ports are what is left of them, see below")
	}
	return lost
}

// beyondJail lists what was asked for and a jail does not have: nothing is dropped silently.
func beyondJail(s *settings, rec *sandbox.Record) (wants []string) {
	want := func(is bool, what string) {
		if is {
			wants = append(wants, what)
		}
	}
	l, n := rec.Limits, rec.Network
	want(rec.Workspace.Mode != sandbox.WorkspaceDirect, "a workspace shown as "+rec.Workspace.Mode)
	want(l.Memory > 0 || l.Pids > 0 || l.CPUs > 0 || l.OpenFiles > 0 || l.KeepFree > 0 || l.Timeout > 0, "limits")
	want(len(n.HostPorts)+len(rec.Forwards)+len(rec.Sockets) > 0, "ports and sockets through the wall")
	want(slices.ContainsFunc(rec.Mounts, func(m sandbox.Mount) bool { return !m.Copy }), "mounts")
	want(len(rec.Daemons) > 0, "daemons")
	want(s.conf.Setup().Run, "a setup")
	want(rec.Nesting, "containers inside")
	want(!rec.Image.None(), "the image "+rec.Image.Ref)
	want(s.root, "root inside")
	return wants
}

func ownEnvironment() map[string]string {
	me := sandbox.Me()
	env := map[string]string{}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok && sandbox.PassesVariable(name) {
			env[name] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env["HOME"], env["USER"], env["LOGNAME"], env["SHELL"] = me.Home, me.Name, me.Name, me.Shell
	return env
}

// setVariables sets what was asked for: NAME=value, or NAME to pass the user's on.
func setVariables(env map[string]string, asked []string) error {
	for _, e := range asked {
		name, value, err := sandbox.Variable(e)
		if err != nil {
			return usage{err}
		}
		env[name] = value
	}
	return nil
}

func sortedEnvironment(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}
