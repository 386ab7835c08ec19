package main

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how wide help is at most: it fits the usual terminal.
const helpWidth = 79

// filled breaks paragraphs into lines of at most helpWidth. Lines that are indented stay as they are.
func filled(text string) string {
	var out []string
	begun := false // the last line may go on
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line == "" || line[0] == ' ' {
			out, begun = append(out, line), false
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if last := len(out) - 1; begun && utf8.RuneCountInString(out[last]+" "+word) <= helpWidth {
				out[last] += " " + word
			} else {
				out, begun = append(out, word), true
			}
		}
	}
	return strings.Join(out, "\n")
}

// aboutMatch says what MATCH is, where no flag does.
func aboutMatch(c *cobra.Command) string {
	switch {
	case strings.Contains(c.Use, "[MATCH"):
		return "\n\nMATCH is how a sandbox's id begins, or a part of its name. Without it, the one\nover the current directory is meant."
	case strings.Contains(c.Use, "MATCH"):
		return "\n\nMATCH is how a sandbox's id begins, or a part of its name."
	}
	return ""
}

var flagsInUse = regexp.MustCompile(`\[-[^]]*\]|\[flags\]`)

// takesWords checks arguments by usage lines: A is one, [A] one or none, A… one or more; and completes sandboxes.
func takesWords(c *cobra.Command) {
	for _, sub := range c.Commands() {
		takesWords(sub)
	}
	if c.Args != nil || c.Hidden {
		return
	}
	var least, most int
	var names []string
	for _, word := range strings.Fields(flagsInUse.ReplaceAllString(c.Use, ""))[1:] {
		names = append(names, word)
		if most++; strings.Contains(word, "…") {
			most = math.MaxInt
		}
		if !strings.ContainsAny(word, "[]") {
			least++
		}
	}
	if len(names) > 0 && c.ValidArgsFunction == nil && strings.Contains("MATCH [MATCH] NAME [NAME] [NAME…]", names[0]) {
		c.ValidArgsFunction = completeSandbox
	}
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > most && c.HasSubCommands():
			return unknown(c, args[0])
		case len(args) > most && most == 0 && (c.Flags().Lookup("sandbox") != nil || c.Flags().Lookup("match") != nil):
			return ui.Hint(usagef("unexpected argument %q", args[0]), "choose a sandbox with -m; see '%s --help'", c.CommandPath())
		case len(args) > most:
			return usagef("unexpected argument %q", args[most])
		case len(args) < least:
			return usagef("%s wants %s", c.Name(), strings.Join(names, " "))
		}
		return nil
	}
}

// habits are commands and flags of container tools, and what to write here.
var habits = map[string]string{
	"ps":     "list the sandboxes with 'coffer ls'",
	"kill":   "end what runs in a sandbox with 'coffer stop NAME'",
	"shell":  "get a shell with 'coffer run', or in a sandbox that stays with 'coffer exec -m NAME'",
	"start":  "a sandbox starts with its next command: 'coffer exec -m NAME -- COMMAND'",
	"pull":   "get an image with 'coffer images pull NAME'",
	"update": "update agents with 'coffer agents update'",

	"i":       "leave it out: on a terminal, a program has the terminal",
	"t":       "leave it out: on a terminal, a program has the terminal",
	"v":       "the current directory is shown; name others in [mounts] of coffer.toml, which 'coffer init' writes",
	"volume":  "the current directory is shown; name others in [mounts] of coffer.toml, which 'coffer init' writes",
	"network": "say --net MODE: standard, none or open; allow hosts with --allow",
	"rm":      "leave it out: the sandbox of a run is removed at its end",
	"user":    "programs run as you; say --root for root in the sandbox",
}

func unknown(c *cobra.Command, word string) error {
	err := usagef("there is no command '%s %s'", c.CommandPath(), word)
	if !c.HasParent() {
		err = usagef("there is no command %q", word)
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	if habit := habits[word]; habit != "" && len(word) > 1 && !c.HasParent() {
		return ui.Hint(err, "%s", habit)
	}
	if agent.Find(agent.Known(), word) != nil && !c.HasParent() {
		return ui.Hint(err, "start the agent with 'coffer ai %s'", word)
	}
	if _, missing := exec.LookPath(word); missing == nil && !c.HasParent() {
		return ui.Hint(err, "run a program with %s, or see 'coffer help'", ui.Command("coffer run --", word))
	}
	if like := ui.Nearest(word, names); like != "" {
		return ui.Hint(err, "did you mean '%s %s'?", c.CommandPath(), like)
	}
	return ui.Hint(err, "see '%s help'", c.Root().Name())
}

// wants says what a flag's value is, by what parses it, as its errors begin.
var wants = map[string]string{
	"strconv.Atoi": "a whole number", "strconv.ParseInt": "a whole number", "strconv.ParseUint": "a whole number", "strconv.ParseFloat": "a number",
	"strconv.ParseBool": "true or false", "time": "a time, such as 90s, 10m or 2h",
}

// wrongFlag is the error about a flag that is not there, or has a value that it cannot have.
func wrongFlag(c *cobra.Command, err error) error {
	see := fmt.Sprintf("see '%s --help'", c.CommandPath())
	var limit *limits.WrongError
	var invalid *pflag.InvalidValueError
	if errors.As(err, &limit) && errors.As(err, &invalid) {
		return ui.Hint(usagef("--%s: %s", invalid.GetFlag().Name, limit.What), "%s; %s", limit.Want, see)
	}
	if errors.As(err, &invalid) {
		parser, _, _ := strings.Cut(invalid.Unwrap().Error(), ":")
		if want := wants[parser]; want != "" {
			return ui.Hint(usagef("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), want), "%s", see)
		}
	}
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if habit := habits[missing.GetSpecifiedName()]; habit != "" && (c.Name() == "run" || c.Name() == "exec") {
			return ui.Hint(usage{err}, "%s", habit)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if like := ui.Nearest(missing.GetSpecifiedName(), names); like != "" {
			return ui.Hint(usage{err}, "did you mean --%s? %s", like, see)
		}
	}
	return usage{err}
}

// exclusive refuses pairs of flags that exclude each other before c runs.
func exclusive(c *cobra.Command, pairs ...string) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, pair := range pairs {
			one, other, _ := strings.Cut(pair, " ")
			if c.Flags().Changed(one) && c.Flags().Changed(other) {
				return usagef("--%s and --%s exclude each other", one, other)
			}
		}
		if before == nil {
			return nil
		}
		return before(c, args)
	}
}
