package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/terminal"
)

// Stdout is where commands print what they were asked for. It remembers that something could
// not be written, so that no command has to check: a listing that is printed into a full disk is
// a failure. A reader that does not read to the end, as head, ends us by SIGPIPE.
var Stdout = &Output{To: os.Stdout}

// An Output is a file that remembers its first error.
type Output struct {
	To *os.File

	mu     sync.Mutex
	failed error
}

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.To.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = cmp.Or(o.failed, errors.Unwrap(err), err)
	}
	return n, err
}

// Failed is the first error, without the name of the file, which the user knows.
func (o *Output) Failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// Guarded is the output for what comes from inside a sandbox, which must not command a terminal.
func (o *Output) Guarded() (w io.Writer, finish func()) {
	if !terminal.IsTerminal(1) {
		return o, func() {}
	}
	return terminal.Guard(o.To)
}

// JSON prints a value, indented. A terminal obeys nothing in it.
func JSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(terminal.JSON(b.Bytes()))
	return err
}
