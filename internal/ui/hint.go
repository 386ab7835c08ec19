package ui

import (
	"errors"
	"fmt"
	"strings"
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

// Command is a command line for the user to paste: the command as it is written, and its arguments.
// An argument that is not plain is quoted for a shell: the name of a branch or a file is a
// sandbox's to choose, and may be a command in itself. A line without such an argument is itself
// in quotes. Around others they would end at the first of the argument's.
func Command(command string, args ...string) string {
	line, plain := command, true
	for _, arg := range args {
		word := Word(arg)
		line, plain = line+" "+word, plain && word == arg
	}
	if plain {
		return "'" + line + "'"
	}
	return line
}

// Word is an argument as a shell takes it.
func Word(arg string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,@%=:"
	if arg != "" && strings.Trim(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
