package main

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What other tools call things, and what they are here.
var (
	otherCommands = map[string]string{
		"ps": "list the sandboxes with 'coffer ls'", "top": "see how a sandbox does with 'coffer status'",
		"kill": "end what runs in a sandbox with 'coffer stop NAME'", "down": "end what runs in a sandbox with 'coffer stop NAME'",
		"shell": "get a shell with 'coffer run', or in a sandbox that stays with 'coffer exec -m NAME'",
		"enter": "get a shell in a sandbox with 'coffer exec -m NAME'", "ssh": "get a shell in a sandbox with 'coffer exec -m NAME'",
		"start": "a sandbox starts with its next command: 'coffer exec -m NAME -- COMMAND'", "up": "make a sandbox that stays with 'coffer exec --create'",
		"create": "make a sandbox that stays with 'coffer exec --create'", "new": "make a sandbox that stays with 'coffer exec --create'",
		"delete": "remove a sandbox with 'coffer rm NAME'", "destroy": "remove a sandbox with 'coffer rm NAME'",
		"inspect": "see a sandbox with 'coffer show NAME'", "pull": "get an image with 'coffer images pull NAME'",
		"update": "update agents with 'coffer agents update'", "upgrade": "update agents with 'coffer agents update'",
		"install": "an agent is installed when 'coffer ai AGENT' first needs it; see 'coffer agents'",
	}
	otherFlags = map[string]string{
		"i": noTTY, "t": noTTY, "interactive": noTTY,
		"v": noVolume, "volume": noVolume, "mount": noVolume,
		"network":    "say --net MODE: standard, none or open; hosts are allowed with --allow",
		"rm":         "leave it out: the sandbox of a run is thrown away anyway",
		"m":          runsApart,
		"match":      runsApart,
		"u":          noUser,
		"user":       noUser,
		"privileged": "say --root for root in the sandbox, --nesting for sandboxes in it",
		"w":          noDirectory,
		"workdir":    noDirectory,
	}
)

const (
	noTTY       = "leave it out: on a terminal, a program has the terminal"
	noVolume    = "the current directory is shown; name others in [mounts] of your config: see 'coffer config --help'"
	runsApart   = "a run has a sandbox of its own; for one that exists: coffer exec -m MATCH -- COMMAND"
	noUser      = "programs run as you; say --root for root in the sandbox"
	noDirectory = "programs start in the current directory: change to another before"
)

// unknown is about a word that is no command.
func unknown(c *cobra.Command, word string) error {
	err := usagef("there is no command %q", word)
	_, missing := exec.LookPath(word)
	if other := otherCommands[word]; other != "" {
		if missing == nil {
			other += fmt.Sprintf("; the program %s is 'coffer run -- %s'", word, word)
		}
		return ui.Hint(err, "%s", other)
	}
	if missing == nil {
		return ui.Hint(err, "run a program with 'coffer run -- %s', or see 'coffer help'", word)
	}
	if like := meant(c, word); like != "" {
		return ui.Hint(err, "did you mean 'coffer %s'?", like)
	}
	return ui.Hint(err, "see 'coffer help'")
}

// wrongFlag is about flags that cannot be used like that, or are not there.
func wrongFlag(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return wrongValue(c, invalid)
	}
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		name := missing.GetSpecifiedName()
		if other := otherFlags[name]; other != "" && c.Name() == "run" {
			return ui.Hint(usage{err}, "%s", other)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if like := ui.Nearest(name, names); like != "" {
			return ui.Hint(usage{err}, "did you mean --%s? See '%s --help'", like, c.CommandPath())
		}
	}
	return ui.Hint(usage{err}, "see '%s --help'", c.CommandPath())
}
