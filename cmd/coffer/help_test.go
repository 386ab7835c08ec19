package main

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command that a user can see says in one line what it does and shows how.
func TestHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "/"), func(t *testing.T) {
			if c.Short == "" {
				t.Error("no Short")
			}
			if strings.HasSuffix(c.Short, ".") {
				t.Errorf("Short ends with a full stop: %q", c.Short)
			}
			if !strings.Contains(c.Example, c.Root().Name()+" ") {
				t.Errorf("the example does not show the command: %q", c.Example)
			}
			for line := range strings.SplitSeq(c.Example, "\n") {
				if !strings.HasPrefix(line, "  ") {
					t.Errorf("a line of the example is not indented: %q", line)
				}
			}
			c.InitDefaultHelpFlag()
			var out strings.Builder
			c.SetOut(&out)
			if err := c.Help(); err != nil {
				t.Error(err)
			}
			for line := range strings.SplitSeq(out.String(), "\n") {
				if utf8.RuneCountInString(line) > helpWidth {
					t.Errorf("a line of the help is wider than %d: %q", helpWidth, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("a line of the help ends in spaces: %q", line)
				}
			}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !strings.Contains(out.String(), "--"+f.Name) {
					t.Errorf("the help does not have --%s", f.Name)
				}
				if value, _ := pflag.UnquoteUsage(f); value != strings.ToUpper(value) {
					t.Errorf("--%s %s: what it takes is not named in capitals", f.Name, value)
				}
			})
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

// What lists something does so for programs too.
func TestHelpOfListings(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		lists := strings.HasPrefix(c.Short, "List ") || c.Flags().Lookup("list") != nil
		if lists && c.Flags().Lookup("json") == nil {
			t.Errorf("%s does not take --json", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

// Every command and every flag is in the document about commands.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(word string) bool {
		// As a whole: `--all` is not there because `--allow` is.
		for _, end := range []string{"`", " ", "\\", ",", "[", "/"} {
			if strings.Contains(string(text), word+end) {
				return true
			}
		}
		return false
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		if c.HasParent() && !has(c.Name()) {
			t.Errorf("%s is not in docs/cli.md", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && f.Name != "version" && !has("--"+f.Name) && (f.Shorthand == "" || !has("`-"+f.Shorthand)) {
				t.Errorf("--%s of %s is not in docs/cli.md", f.Name, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}
