package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how wide help is at most: it fits the usual terminal.
const helpWidth = 79

// showHelp prints a command's description, with its lines filled, and its usage.
func showHelp(c *cobra.Command, _ []string) {
	fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", filled(cmp.Or(c.Long, c.Short)), c.UsageString())
}

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

// showUsage is what help says of a command below its description. It is there for its
// flags, which cobra puts on one line each, however long that is.
func showUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	b.WriteString(aboutMatch(c))
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if len(c.Groups()) == 0 {
		usageCommands(&b, "Available Commands:", c.Commands())
	}
	for _, g := range c.Groups() {
		usageCommands(&b, g.Title, slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return sub.GroupID != g.ID }))
	}
	usageFlags(&b, "Flags:", c.LocalFlags())
	usageFlags(&b, "Global Flags:", c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse '%s [command] --help' for more about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// aboutMatch says what MATCH is, where no flag does.
func aboutMatch(c *cobra.Command) string {
	if !strings.Contains(c.Use, "MATCH") || strings.Contains(c.Use, "-m MATCH") {
		return ""
	}
	text := "MATCH is how a sandbox's id begins, or a part of its name."
	if strings.Contains(c.Use, "[MATCH") {
		text += " Without it, the one over the current directory is meant."
	}
	return "\n" + filled(text) + "\n"
}

func usageCommands(b *strings.Builder, title string, list []*cobra.Command) {
	list = slices.DeleteFunc(slices.Clone(list), func(c *cobra.Command) bool { return !c.IsAvailableCommand() && c.Name() != "help" })
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, c := range list {
		fmt.Fprintf(b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
	}
}

func usageFlags(b *strings.Builder, title string, f *pflag.FlagSet) {
	if text := strings.TrimRight(f.FlagUsagesWrapped(helpWidth), " \n"); text != "" {
		fmt.Fprintf(b, "\n%s\n%s\n", title, text)
	}
}
