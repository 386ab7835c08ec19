package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// habits are commands, and flags of run, of other tools, and what they are here.
var habits = map[string]string{
	"ps":      "list the sandboxes with 'coffer ls'",
	"kill":    "end what runs in a sandbox with 'coffer stop NAME'",
	"shell":   "get a shell with 'coffer run', or in a sandbox that stays with 'coffer exec -m NAME'",
	"start":   "a sandbox starts with its next command: 'coffer exec -m NAME -- COMMAND'",
	"create":  "make a sandbox that stays with 'coffer exec --create'",
	"inspect": "see a sandbox with 'coffer show NAME'",
	"pull":    "get an image with 'coffer images pull NAME'",
	"update":  "update agents with 'coffer agents update'",

	"-i":        "leave it out: on a terminal, a program has the terminal",
	"-t":        "leave it out: on a terminal, a program has the terminal",
	"-v":        "the current directory is shown; name others in [mounts] of your config: see 'coffer config --help'",
	"--volume":  "the current directory is shown; name others in [mounts] of your config: see 'coffer config --help'",
	"--network": "say --net MODE: standard, none or open; hosts are allowed with --allow",
	"--rm":      "leave it out: the sandbox of a run is thrown away anyway",
	"-m":        "a run has a sandbox of its own; for one that exists: coffer exec -m MATCH -- COMMAND",
	"--user":    "programs run as you; say --root for root in the sandbox",
}

// noArgs is for commands that take none.
func noArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands():
		return unknown(c, args[0])
	case c.Flags().ShorthandLookup("m") != nil: // others take the name of a sandbox as an argument
		return ui.Hint(usagef("unexpected argument %q", args[0]), "choose a sandbox with -m; see '%s --help'", c.CommandPath())
	}
	return usagef("unexpected argument %q", args[0])
}

// unknown is the error about a word that is no command below c.
func unknown(c *cobra.Command, word string) error {
	err := usagef("there is no command %q", word)
	if c.HasParent() {
		err = usagef("there is no command '%s %s'", c.CommandPath(), word)
	} else if habits[word] != "" {
		return ui.Hint(err, "%s", habits[word])
	} else if _, missing := exec.LookPath(word); missing == nil {
		return ui.Hint(err, "run a program with 'coffer run -- %s', or see 'coffer help'", word)
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	if like := ui.Nearest(word, names); like != "" {
		return ui.Hint(err, "did you mean '%s %s'?", c.CommandPath(), like)
	}
	return ui.Hint(err, "see '%s help'", c.Root().Name())
}

// wrongFlag is the error about a flag that is not there, or has a value that it cannot have.
func wrongFlag(c *cobra.Command, err error) error {
	see := fmt.Sprintf("see '%s --help'", c.CommandPath())
	var limit *limits.WrongError
	var invalid *pflag.InvalidValueError
	if errors.As(err, &limit) && errors.As(err, &invalid) {
		return ui.Hint(usagef("--%s: %s", invalid.GetFlag().Name, limit.What), "%s; %s", limit.Want, see)
	}
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		name := missing.GetSpecifiedName()
		dashed := "--" + name
		if len(name) == 1 {
			dashed = "-" + name
		}
		if c.Name() == "run" && habits[dashed] != "" {
			return ui.Hint(usage{err}, "%s", habits[dashed])
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if like := ui.Nearest(name, names); like != "" {
			return ui.Hint(usage{err}, "did you mean --%s? %s", like, see)
		}
	}
	return usage{err}
}

// together refuses pairs of flags that exclude each other.
func together(c *cobra.Command, pairs ...string) error {
	for _, pair := range pairs {
		one, other, _ := strings.Cut(pair, " ")
		if c.Flags().Changed(one) && c.Flags().Changed(other) {
			return usagef("--%s and --%s exclude each other", one, other)
		}
	}
	return nil
}
