package origin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Asked is what a command line asks for: a request, and what is left to do inside.
type Asked struct {
	Request
	Query string // what jq is to make of the answer
	Fill  bool   // title and body are to be made of the commits
	Help  bool   // only how it is used
}

// aside are options that are dealt with inside.
func aside(v verb) []flag {
	all := []flag{{"help", 'h', none, nil}}
	if _, ok := v.flag("json"); ok {
		all = append(all, flag{"jq", 'q', text, nil})
	}
	if _, ok := v.flag("body"); ok {
		all = append(all, flag{"body-file", 'F', line, nil})
	}
	if v.group == "pr" && v.name == "create" {
		all = append(all, flag{"fill", 'f', none, nil})
	}
	return all
}

// Parse understands a command line as gh does. read reads a file that it names.
func Parse(args []string, read func(name string) (string, error)) (a Asked, err error) {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		return Asked{Help: true}, nil
	}
	if strings.HasPrefix(args[0], "-") {
		return a, fmt.Errorf("gh in a sandbox does not know %q before a command", args[0])
	}
	a.Group = args[0]
	if len(args) == 1 || args[1] == "--help" || args[1] == "-h" {
		if Verbs(a.Group) != "" {
			return Asked{Help: true}, nil
		}
		args = append(args, "")
	}
	a.Verb = args[1]
	v, err := find(a.Group, a.Verb)
	if err != nil {
		return a, err
	}
	known := append(slices.Clone(v.flags), aside(v)...)
	options := true
	for args = args[2:]; len(args) > 0; {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--" && options:
			options = false
		case options && len(word) > 1 && word[0] == '-':
			f, value, rest, err := option(v, known, word, args)
			if err == nil {
				args, err = rest, a.take(f, value, read)
			}
			if err != nil {
				return a, err
			}
		case a.Number != "":
			return a, fmt.Errorf("unexpected argument %q", word)
		default:
			if a.Number = strings.TrimPrefix(word, "#"); a.Number == "" {
				return a, errors.New("an empty argument")
			}
		}
	}
	if a.Help {
		return a, nil
	}
	if a.Query != "" && a.value("json") == "" {
		return a, errors.New("--jq goes with --json")
	}
	if a.Fill { // what is said counts more than what the commits say
		return a, nil
	}
	return a, a.Check()
}

// Check says what is wrong with it, when all is there.
func (a *Asked) Check() error { return a.check() }

// option finds an option, and its value in the same word or the next.
func option(v verb, known []flag, word string, args []string) (f flag, value string, rest []string, err error) {
	name, value, has := strings.Cut(word, "=")
	i := slices.IndexFunc(known, func(f flag) bool { return name == "--"+f.name })
	if i < 0 && word[1] != '-' {
		i = slices.IndexFunc(known, func(f flag) bool { return f.short != 0 && f.short == word[1] })
		if value, has = word[2:], len(word) > 2; has && i >= 0 && known[i].kind != none {
			value = strings.TrimPrefix(value, "=")
		}
	}
	if i < 0 {
		return f, "", nil, unknown(v, name)
	}
	f = known[i]
	switch {
	case f.kind == none && has && value != "true":
		return f, "", nil, fmt.Errorf("--%s takes no value", f.name)
	case f.kind == none:
		return f, "", args, nil
	case has:
		return f, value, args, nil
	case len(args) == 0:
		return f, "", nil, fmt.Errorf("--%s wants a value", f.name)
	}
	return f, args[0], args[1:], nil
}

// take notes an option.
func (a *Asked) take(f flag, value string, read func(string) (string, error)) (err error) {
	switch f.name {
	case "help":
		a.Help = true
	case "jq":
		a.Query = value
	case "fill":
		a.Fill = true
	case "body-file":
		if value, err = read(value); err == nil {
			a.Flags = append(a.Flags, Given{"body", value})
		}
	default:
		a.Flags = append(a.Flags, Given{f.name, value})
	}
	return err
}

// Default gives an option a value, unless it has one.
func (a *Asked) Default(name, value string) {
	if !slices.ContainsFunc(a.Flags, func(g Given) bool { return g.Name == name }) {
		a.Flags = append(a.Flags, Given{name, value})
	}
}
