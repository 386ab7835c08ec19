package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
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
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(policyShow(), policyCheck(), policyExplain(), policyLog(), policyAllow(true), policyAllow(false),
		policyReset(), policyPending(), policyAnswer(), policyGroups(), policyTest())
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
	sb, err := choice{none: "choose one with --sandbox, see 'coffer ls'"}.choose(store, a.match)
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
		v.set, _, err = network.Policy(sb)
		return v, err
	case a.match != "" || !errors.As(err, new(noneHere)):
		return v, err // several, or something is wrong
	}
	v.whose = "a new sandbox"
	if v.network, err = newNetwork(); err != nil {
		return v, err
	}
	v.set, err = network.Compile(v.network, policy.Source{})
	return v, err
}

func policyLog() *cobra.Command {
	var a about
	var follow bool
	c := &cobra.Command{
		Use:     "log [-f]",
		Short:   "Show what programs reached and what was refused",
		Example: "  coffer policy log -f --sandbox calm-otter",
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
		Use:     "groups [GROUP]",
		Short:   "List the built-in groups of hosts, or what is in one",
		Example: "  coffer policy groups npm\n  coffer policy groups --json | jq -r '.[].name'",
		RunE: func(_ *cobra.Command, args []string) error {
			all := policy.Groups()
			i := slices.IndexFunc(all, func(g policy.Group) bool { return g.Name == first(args) })
			switch {
			case len(args) > 0 && i < 0:
				return ui.Hint(usagef("there is no group %q", args[0]), "see 'coffer policy groups'")
			case len(args) > 0 && asJSON:
				return printJSON(all[i])
			case len(args) > 0:
				fmt.Fprintln(stdout, strings.Join(all[i].Targets, "\n"))
				return nil
			case asJSON:
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

func policyAllow(allow bool) *cobra.Command {
	var a about
	var lasts time.Duration
	var protocol string
	verb, short := "deny", "Refuse hosts or address ranges"
	if allow {
		verb, short = "allow", "Let programs reach hosts or address ranges"
	}
	c := &cobra.Command{
		Use:     verb + " TARGET…",
		Short:   short,
		Example: "  coffer policy " + verb + " '*.example.com:443' --for 1h",
		RunE: func(_ *cobra.Command, args []string) error {
			change := network.Change{Do: verb}
			for _, t := range args {
				if _, err := policy.ParseTarget(t); err != nil {
					return usage{err}
				}
				r := network.RuleFor(t, allow)
				r.Protocol = protocol
				if lasts > 0 {
					r.Expires = time.Now().Add(lasts).UTC()
				}
				change.Rules = append(change.Rules, r)
			}
			if lasts < 0 {
				return usagef("a rule cannot last less than no time")
			}
			if err := new(policy.Protocol).UnmarshalText([]byte(protocol)); err != nil {
				return usagef("--protocol: %v", err)
			}
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			if _, err := network.ChangePolicy(sb, change); err != nil {
				return err
			}
			if !allow {
				return nil
			}
			return stillDecides(sb, args, protocol)
		},
	}
	a.addTo(c)
	c.Flags().DurationVar(&lasts, "for", 0, "have the rule last for this `TIME`, such as 1h (default: until it is reset)")
	c.Flags().StringVar(&protocol, "protocol", "", "limit the rule to this `PROTOCOL`: tcp, udp, tls or http")
	return c
}

// stillDecides warns when another rule has the last word about what was just allowed.
func stillDecides(sb *sandbox.Sandbox, targets []string, protocol string) error {
	set, _, err := network.Policy(sb)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if protocol != "" {
			t = protocol + "://" + t
		}
		q, err := policy.ParseURL(t)
		if err != nil {
			continue // a pattern, or for all ports: not one destination
		}
		if d := (view{sb: sb, network: sb.Network, set: set}).decide(q); d.Verdict == policy.Deny {
			fmt.Fprintf(os.Stderr, "coffer: warning: %s stays refused: %s\n", terminal.Escape(t), terminal.Escape(d.Reason))
		}
	}
	return nil
}

func policyReset() *cobra.Command {
	var a about
	c := &cobra.Command{
		Use:     "reset [TARGET…]",
		Short:   "Take back what 'coffer policy' changed",
		Example: "  coffer policy reset api.example.com:443",
		RunE: func(_ *cobra.Command, args []string) error {
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			r, err := network.ChangePolicy(sb, network.Change{Do: "reset", Targets: args})
			if err != nil {
				return err
			}
			if r.Rules == 0 && len(args) > 0 {
				return ui.Error("no rule of 'coffer policy' has such a target", "see 'coffer policy show'")
			}
			fmt.Fprintf(os.Stderr, "coffer: took back %s\n", count(r.Rules, "rule"))
			return nil
		},
	}
	a.addTo(c)
	return c
}
