package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// secretValue gets the value of a secret from a variable, a person or a pipe.
func secretValue(c *cobra.Command, name, variable string) (value []byte, err error) {
	switch {
	case variable != "":
		text, ok := os.LookupEnv(variable)
		if !ok {
			return nil, ui.Hint(usagef("the environment variable %s is not set", variable), "export it, or leave out --from-env")
		}
		value = []byte(text)
	case terminal.IsTerminal(0):
		ctx, stop := interruptible(c)
		defer stop()
		if value, err = ui.AskHidden(ctx, fmt.Sprintf("Value of %s (it is not shown): ", name)); err != nil {
			return nil, err
		}
	default:
		value, err = io.ReadAll(io.LimitReader(os.Stdin, secret.MaxValue+3))
		if err != nil {
			return nil, fmt.Errorf("read the value from standard input: %w", err)
		}
		value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	}
	if err := secret.CheckValue(value); err != nil {
		return nil, ui.Hint(fmt.Errorf("%s is not set: %w", name, err), "type it, or pipe it to 'coffer secret set %s'", name)
	}
	return value, nil
}
