package ui

import (
	"errors"
	"fmt"
)

// advised is an error that knows what to do about itself.
type advised interface {
	error
	Hint() string
}

type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }
func (h hinted) Hint() string  { return h.hint }

// Hint adds a hint to an error. A nil error stays nil.
func Hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// Error makes an error with a hint.
func Error(what, hint string) error { return hinted{errors.New(what), hint} }

// HintOf returns an error's hint, the outermost if there are several.
func HintOf(err error) string {
	var h advised
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
