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

// What other tools call things, and what they are here.
var (
	otherCommands = map[string]string{
		"ps":      "list the sandboxes with 'coffer ls'",
		"kill":    "end what runs in a sandbox with 'coffer stop NAME'",
		"shell":   "get a shell with 'coffer run', or in a sandbox that stays with 'coffer exec -m NAME'",
		"start":   "a sandbox starts with its next command: 'coffer exec -m NAME -- COMMAND'",
		"create":  "make a sandbox that stays with 'coffer exec --create'",
		"inspect": "see a sandbox with 'coffer show NAME'",
		"pull":    "get an image with 'coffer images pull NAME'",
		"update":  "update agents with 'coffer agents update'",
	}
	otherFlags = map[string]string{
		"i":       noTTY,
		"t":       noTTY,
		"v":       noVolume,
		"volume":  noVolume,
		"network": "say --net MODE: standard, none or open; hosts are allowed with --allow",
		"rm":      "leave it out: the sandbox of a run is thrown away anyway",
		"m":       "a run has a sandbox of its own; for one that exists: coffer exec -m MATCH -- COMMAND",
		"user":    "programs run as you; say --root for root in the sandbox",
	}
)

const (
	noTTY    = "leave it out: on a terminal, a program has the terminal"
	noVolume = "the current directory is shown; name others in [mounts] of your config: see 'coffer config --help'"
)

// unknown is about a word that is no command.
func unknown(c *cobra.Command, word string) error {
	err := usagef("there is no command %q", word)
	_, missing := exec.LookPath(word)
	if other := otherCommands[word]; other != "" {
		return ui.Hint(err, "%s", other)
	}
	if like := meant(c, word); like != "" && missing != nil {
		return ui.Hint(err, "did you mean 'coffer %s'?", like)
	}
	if missing == nil {
		return ui.Hint(err, "run a program with 'coffer run -- %s', or see 'coffer help'", word)
	}
	return ui.Hint(err, "see 'coffer help'")
}

// wrongFlag is about flags that cannot be used like that, or are not there.
func wrongFlag(c *cobra.Command, err error) error {
	see := fmt.Sprintf("see '%s --help'", c.CommandPath())
	var limit *limits.WrongError
	if errors.As(err, &limit) {
		return ui.Hint(usagef("--%s: %s", flagOf(err), limit.What), "%s; %s", limit.Want, see)
	}
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		name := missing.GetSpecifiedName()
		if other := otherFlags[name]; other != "" && c.Name() == "run" {
			return ui.Hint(usage{err}, "%s", other)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if like := ui.Nearest(name, names); like != "" {
			return ui.Hint(usage{err}, "did you mean --%s? %s", like, see)
		}
	}
	return ui.Hint(usage{err}, "%s", see)
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

// flagOf is the flag that has a value which it cannot have.
func flagOf(err error) string {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalid.GetFlag().Name
	}
	return ""
}
