// Package hint attaches to an error what the user can do about it. The error says in
// one sentence what happened; the hint is the way out, shown on a line of its own.
package hint

import (
	"errors"
	"fmt"
)

// An Error knows what to do about itself.
type Error interface {
	error
	Hint() string
}

type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }
func (h hinted) Hint() string  { return h.hint }

// Wrap adds a hint to an error. A nil error stays nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// New makes an error with a hint.
func New(what, hint string) error { return hinted{errors.New(what), hint} }

// Of returns an error's hint, the outermost if there are several.
func Of(err error) string {
	var h Error
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
