package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/terminal"
)

// ErrNoTerminal says that there is no terminal to ask the user on.
var ErrNoTerminal = errors.New("there is no terminal to ask you on")

// longestLine is what a terminal lets be typed in one line. It cuts off the rest.
const longestLine = 4095

// OpenTerminal opens the user's terminal, if there is somebody to answer on it.
func OpenTerminal() (*os.File, error) {
	if !terminal.IsTerminal(0) || !terminal.IsTerminal(2) {
		return nil, ErrNoTerminal
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, ErrNoTerminal
	}
	return tty, nil
}

// Ask asks a question on the terminal and returns the answer, without spaces around it. If ctx
// ends first, the error is its cause.
func Ask(ctx context.Context, question string) (string, error) {
	tty, err := OpenTerminal()
	if err != nil {
		return "", err
	}
	defer tty.Close()
	line, err := answer(ctx, tty, question)
	return strings.TrimSpace(string(line)), err
}

// Agree is Ask for a question that is answered by y or yes.
func Agree(ctx context.Context, question string) (bool, error) {
	line, err := Ask(ctx, question+" [y/N] ")
	line = strings.ToLower(line)
	return line == "y" || line == "yes", err
}

// AskHidden asks for a line that is not shown. It needs a terminal to type on, wherever errors go.
func AskHidden(ctx context.Context, question string) ([]byte, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, Hint(ErrNoTerminal, "pipe the value to the command")
	}
	defer tty.Close()
	state, err := terminal.Hide(int(tty.Fd()))
	if err != nil {
		return nil, err
	}
	defer state.Restore()
	line, err := answer(ctx, tty, question)
	if len(line) >= longestLine {
		return nil, Error("that is more than a terminal passes on in one line", "pipe the value to the command")
	}
	return line, err
}

// answer prints a question and reads a line, until ctx ends.
func answer(ctx context.Context, tty *os.File, question string) ([]byte, error) {
	fmt.Fprint(tty, question)
	line, err := readFrom(ctx, tty, longestLine+1) // a read from a terminal ends at the end of a line
	if ctx.Err() != nil {
		fmt.Fprintln(tty)
	}
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	return line, err
}

// readFrom reads from a terminal once, until ctx ends. Then the read is left behind: the process
// is about to end.
func readFrom(ctx context.Context, tty *os.File, most int) ([]byte, error) {
	type typed struct {
		text []byte
		err  error
	}
	reading := make(chan typed, 1)
	go func() {
		text := make([]byte, most)
		n, err := tty.Read(text)
		reading <- typed{text[:n], err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case t := <-reading:
		if t.err != nil && !errors.Is(t.err, io.EOF) {
			return nil, fmt.Errorf("read the terminal: %w", t.err)
		}
		return t.text, nil
	}
}
