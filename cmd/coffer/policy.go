package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "See and change what a sandbox's network allows",
		Long: `See and change what a sandbox's network allows. Changes take effect at once, also in
a sandbox that runs, and close connections that are no longer allowed.

A target is a host name, *.example.com (everything below it, not itself), * or an
address range, and may end in ports: api.example.com:443, 10.0.0.0/8:5432,8000-8999.
@NAME is one of the groups that 'coffer policy groups' lists. A rule that denies beats
one that allows.`,
		Example: `  coffer policy check https://example.com/
  coffer policy allow api.example.com:443
  coffer policy log -f`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(policyShow(), policyCheck(), policyExplain(), policyLog(), policyAllow(true), policyAllow(false),
		policyReset(), policyPending(), policyAnswer(), policyGroups())
	return c
}

// about is the flag that says which sandbox a policy command is about.
type about struct{ match string }

func (a *about) addTo(c *cobra.Command) {
	c.Flags().StringVarP(&a.match, "sandbox", "m", "", "the sandbox that is meant, by `ID` or name (default: the one over this directory)")
	_ = c.RegisterFlagCompletionFunc("sandbox", completeSandbox)
}

func (a *about) sandbox() (*sandbox.Sandbox, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	sb, err := choice{none: "choose one with --sandbox, see 'coffer ls'", many: "choose one with --sandbox"}.choose(store, a.match)
	if jail := findJail(a.match); err != nil && jail != nil {
		return jail, nil
	}
	return sb, err
}

// policy is that of the sandbox, or of the one that a command would make here.
func (a *about) policy() (v view, err error) {
	sb, err := a.sandbox()
	switch {
	case err == nil:
		v = view{whose: "sandbox " + sb.Name, sb: sb, network: sb.Network}
		v.set, _, err = supervisor.Policy(sb)
		return v, err
	case a.match != "" || !errors.As(err, new(noneHere)):
		return v, err // several, or something is wrong
	}
	v.whose = "a new sandbox"
	if v.network, err = newNetwork(); err != nil {
		return v, err
	}
	v.set, err = supervisor.Compile(v.network, policy.Source{})
	return v, err
}

func policyLog() *cobra.Command {
	var a about
	var follow bool
	c := &cobra.Command{
		Use:     "log [-f]",
		Short:   "Show what programs reached and what was refused",
		Example: "  coffer policy log -f --sandbox calm-otter",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			return printNetwork(c.Context(), stdout, sb, follow)
		},
	}
	a.addTo(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the sandbox stops")
	return c
}

func policyGroups() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "groups [NAME]",
		Short:   "List the built-in groups of hosts, or what is in one",
		Example: "  coffer policy groups npm\n  coffer policy groups --json | jq -r '.[].name'",
		Args:    atMostOneOf("group"),
		RunE: func(_ *cobra.Command, args []string) error {
			all := policy.Groups()
			if len(args) > 0 {
				return showGroup(all, args[0], asJSON)
			}
			if asJSON {
				return printJSON(all)
			}
			var t ui.Table
			for _, g := range all {
				t.Add(g.Name, g.About)
			}
			return t.Print(stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func showGroup(all []policy.Group, name string, asJSON bool) error {
	i := slices.IndexFunc(all, func(g policy.Group) bool { return g.Name == name })
	if i < 0 {
		return ui.Hint(usagef("there is no group %q", name), "see 'coffer policy groups'")
	}
	if asJSON {
		return printJSON(all[i])
	}
	fmt.Fprintln(stdout, strings.Join(all[i].Targets, "\n"))
	return nil
}

// exactly is for commands that take so many arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return ui.Hint(usagef("want %s", what), "see '%s --help'", c.CommandPath())
		}
		return nil
	}
}

// some is for commands that take at least one argument.
func some(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return ui.Hint(usagef("want %s", what), "see '%s --help'", c.CommandPath())
		}
		return nil
	}
}

// atMostOne is for commands that take one sandbox, or the one over this directory.
func atMostOne(c *cobra.Command, args []string) error { return atMostOneOf("sandbox")(c, args) }

func atMostOneOf(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return ui.Hint(usagef("expected one %s, got %d", what, len(args)), "name one at a time; see '%s --help'", c.CommandPath())
		}
		return nil
	}
}
