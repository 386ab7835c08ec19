package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// several is how a command that ends sandboxes takes any number of them.
type several struct {
	match           []string
	all, everywhere bool
}

func (s *several) addTo(c *cobra.Command) {
	c.Flags().BoolVar(&s.all, "all", false, c.Name()+" the sandboxes of this repository or directory")
	c.Flags().BoolVar(&s.everywhere, "everywhere", false, c.Name()+" all sandboxes, wherever they work")
	c.Flags().StringArrayVarP(&s.match, "match", "m", nil, "a sandbox, by its `NAME` or id")
	_ = c.RegisterFlagCompletionFunc("match", completeSandbox)
}

// find returns all the sandboxes, or none and an error. With --all or --everywhere, it may return
// both: the errors are about damaged records.
func (s *several) find(c *cobra.Command, store *sandbox.Store, args []string) ([]*sandbox.Sandbox, error) {
	args = append(args, s.match...)
	switch {
	case s.all || s.everywhere:
		if len(args) > 0 {
			return nil, usagef("--all and --everywhere take no names")
		}
		return s.list(store)
	case len(args) == 0:
		args = []string{""} // the one over the current directory
	case slices.Contains(args, ""):
		return nil, usagef("a sandbox's name is not empty")
	}
	var list []*sandbox.Sandbox
	for _, a := range args {
		sb, err := forName.exactly(c, store, a)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(other *sandbox.Sandbox) bool { return other.ID == sb.ID }) {
			list = append(list, sb)
		}
	}
	return list, nil
}

func (s *several) list(store *sandbox.Store) ([]*sandbox.Sandbox, error) {
	list, errs := store.List()
	all := len(list)
	if !s.everywhere {
		here, err := spotHere()
		if err != nil {
			return nil, err
		}
		list = only(list, here.about)
	}
	if len(list) == 0 && all > 0 {
		fmt.Fprintln(os.Stderr, "coffer: no sandbox works here; --everywhere means those of all repositories")
	}
	return list, joined(errs)
}

// each calls f for every sandbox. Of several errors, found being one, each is reported with its hint.
func each(list []*sandbox.Sandbox, found error, f func(*sandbox.Sandbox) error) error {
	errs := []error{found}
	for _, sb := range list {
		errs = append(errs, f(sb))
	}
	return joined(errs)
}

// joined reports errors if they are several, and returns the exit status.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	var code int
	for _, err := range errs {
		code = report(err)
	}
	return status(code)
}

// exactly is choose for a command that destroys something: it takes a whole name or id, and asks
// on a terminal if it is given less.
func (c choice) exactly(cmd *cobra.Command, store *sandbox.Store, match string) (*sandbox.Sandbox, error) {
	sb, err := c.choose(store, match)
	if err != nil || match == "" || match == sb.Name || match == sb.ID {
		return sb, err
	}
	refusal := ui.Hint(noMatch{fmt.Errorf("no sandbox is called %q", match)}, "'coffer %s' takes a whole name: %s, perhaps?", cmd.Name(), sb.Name)
	question := fmt.Sprintf("No sandbox is called %q. %s %s?", match, strings.ToUpper(cmd.Name()[:1])+cmd.Name()[1:], sb.Name)
	return sb, agree(cmd, question, refusal)
}

// agree asks a question on the terminal. The answer is refusal if it is not yes, or there is no terminal.
func agree(c *cobra.Command, question string, refusal error) error {
	ctx, stop := interruptible(c)
	defer stop()
	yes, err := ui.Agree(ctx, question)
	if errors.Is(err, ui.ErrNoTerminal) || err == nil && !yes {
		return refusal
	}
	return err
}
