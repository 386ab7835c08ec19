package origin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
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
	words, err := a.options(v, args[2:], read)
	switch {
	case err != nil || a.Help:
		return a, err
	case len(words) > 1:
		return a, fmt.Errorf("unexpected argument %q", words[1])
	case len(words) == 1:
		if a.Number = strings.TrimPrefix(words[0], "#"); a.Number == "" {
			return a, errors.New("an empty argument")
		}
	}
	if a.Query != "" && a.value("json") == "" {
		return a, errors.New("--jq goes with --json")
	}
	if a.Fill { // what is said counts more than what the commits say
		return a, nil
	}
	return a, a.Check()
}

// options notes the options of a verb, and returns the other words.
func (a *Asked) options(v verb, args []string, read func(name string) (string, error)) ([]string, error) {
	set := pflag.NewFlagSet("gh", pflag.ContinueOnError)
	for _, f := range append(slices.Clone(v.flags), aside(v)...) {
		short := strings.Trim(string(rune(f.short)), "\x00")
		if f.kind != none {
			set.FuncP(f.name, short, "", func(value string) error { return a.take(f, value, read) })
			continue
		}
		set.BoolFuncP(f.name, short, "", func(value string) error {
			if value != "true" {
				return errors.New("it takes no value")
			}
			return a.take(f, "", read)
		})
	}
	err := set.Parse(args)
	if missing := new(pflag.NotExistError); errors.As(err, &missing) {
		option := "--" + missing.GetSpecifiedName()
		if missing.GetSpecifiedShortnames() != "" {
			option = option[1:]
		}
		err = unknown(v, option)
	}
	return set.Args(), err
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
