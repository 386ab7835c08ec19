package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
			for line := range strings.SplitSeq(c.Long, "\n") {
				if len(line) > 88 {
					t.Errorf("a line of the help is wider than 88: %q", line)
				}
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}
