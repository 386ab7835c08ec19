package knock

import "github.com/cofferhq/coffer/internal/alias"

// Args are those of an exec in its plain form.
type Args struct {
	Match   string // what the user calls the sandbox; empty for the one over this directory
	Command []string
}

// Parse understands
//
//	coffer exec|x [-m MATCH] [--] COMMAND [ARG…]
//
// and nothing else: what it does not take is for the real parser. What it takes means
// the same there, which a test in cmd/coffer compares.
func Parse(argv []string) (a Args, ok bool) {
	if len(argv) < 3 || argv[1] != "exec" && argv[1] != "x" || alias.Other(argv[0]) {
		return a, false
	}
	rest := argv[2:]
	if rest[0] == "-m" {
		if len(rest) < 2 || rest[1] == "" {
			return a, false
		}
		a.Match, rest = rest[1], rest[2:]
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	} else if len(rest) > 0 && hasPrefix(rest[0], "-") {
		return a, false
	}
	a.Command = rest
	return a, len(rest) > 0
}

// hasPrefix is that of package strings, which would have to be set up first.
func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }
