package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/terminal"
)

// stdout is where commands print what they were asked for. It remembers that something could
// not be written, so that no command has to look: who prints a listing into a full disk must not
// be told that all was well. Who does not read to the end, as head, ends us by SIGPIPE, as Go has
// it; where that is caught, nothing is missed by anybody.
var stdout = &output{to: os.Stdout}

type output struct {
	to *os.File

	mu     sync.Mutex
	failed error // the first error, without the name of the file, which the user knows
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = cmp.Or(o.failed, errors.Unwrap(err), err)
	}
	return n, err
}

// checked is how a command ends that would otherwise end with err: that its output is lost
// counts more than that all was well, or than an exit code.
func (o *output) checked(err error) error {
	o.mu.Lock()
	failed := o.failed
	o.mu.Unlock()
	var code status
	var given givenUp
	switch {
	case failed == nil || errors.As(err, &given):
		return err
	case errors.Is(failed, syscall.EPIPE):
		if errors.Is(err, syscall.EPIPE) {
			return nil
		}
		return err
	case err == nil || errors.As(err, &code) || errors.Is(err, failed):
		return fmt.Errorf("the output could not be written: %w", failed)
	}
	return err
}

// printed is checked for who has an exit code already.
func printed(code int) int {
	if code == 0 {
		code = report(stdout.checked(nil))
	}
	return code
}

// hushed is stdout for those who would say themselves that it failed.
type hushed struct{ *output }

func (h hushed) Write(p []byte) (int, error) {
	_, _ = h.output.Write(p)
	return len(p), nil
}

// guarded is stdout for a stranger's words, which must not command a terminal.
func guarded() (w io.Writer, finish func()) {
	if !terminal.IsTerminal(1) {
		return stdout, func() {}
	}
	return terminal.Guard(stdout.to)
}
