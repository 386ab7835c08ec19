package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/cofferhq/coffer/internal/secret"
	"github.com/cofferhq/coffer/internal/secret/vault"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// longestLine is what a terminal lets be typed in one line. What is longer it cuts off.
const longestLine = 4095

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
		if value, err = askHidden(ctx, fmt.Sprintf("Value of %s (it is not shown): ", name)); err != nil {
			return nil, err
		}
	default:
		value, err = io.ReadAll(io.LimitReader(os.Stdin, secret.MaxValue+3))
		if err != nil {
			return nil, fmt.Errorf("read the value from standard input: %w", err)
		}
		value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	}
	if err := vault.CheckValue(value); err != nil {
		return nil, ui.Hint(fmt.Errorf("%s is not set: %w", name, err), "type it, or pipe it to 'coffer secret set %s'", name)
	}
	return value, nil
}

// askHidden asks for a line that is not shown. A signal, such as Ctrl-C, ends the question
// and the command, and the terminal is as it was.
func askHidden(ctx context.Context, question string) ([]byte, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, ui.Error("there is no terminal to ask you on", "pipe the value to the command")
	}
	defer tty.Close()
	state, err := terminal.Hide(int(tty.Fd()))
	if err != nil {
		return nil, err
	}
	defer state.Restore()
	fmt.Fprint(tty, question)
	type line struct {
		text []byte
		err  error
	}
	typed := make(chan line, 1)
	go func() {
		b := make([]byte, longestLine+1)
		n, err := tty.Read(b)
		typed <- line{b[:n], err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(tty)
		return nil, context.Cause(ctx)
	case l := <-typed:
		if l.err != nil && l.err != io.EOF {
			return nil, fmt.Errorf("read the value: %w", l.err)
		}
		if len(l.text) >= longestLine {
			return nil, ui.Error("that is more than a terminal passes on in one line", "pipe the value to the command")
		}
		return bytes.TrimSuffix(l.text, []byte("\n")), nil
	}
}
