package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

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
		Args:    some("a target, such as api.example.com:443"),
		RunE: func(_ *cobra.Command, args []string) error {
			change := supervisor.Change{Do: verb}
			for _, t := range args {
				if _, err := policy.ParseTarget(t); err != nil {
					return usage{err}
				}
				r := supervisor.RuleFor(t, allow)
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
			if errors.As(err, new(noneHere)) {
				return ui.Hint(err, "for one run: 'coffer run --%s %s …'; for a sandbox elsewhere: --sandbox, see 'coffer ls'", verb, args[0])
			}
			if err != nil {
				return err
			}
			if _, err := supervisor.ChangePolicy(sb, change); err != nil {
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
	set, _, err := supervisor.Policy(sb)
	if err != nil {
		return err
	}
	for _, t := range targets {
		q, err := destination(t, protocol)
		if err != nil {
			continue // a pattern: not one destination
		}
		if d := (view{sb: sb, network: sb.Network, set: set}).decide(q); d.Verdict == policy.Deny {
			fmt.Fprintf(os.Stderr, "coffer: warning: %s stays refused: %s\n", terminal.Escape(t), terminal.Escape(d.Reason))
		}
	}
	return nil
}

// destination is what a target means by the protocol that its rule is limited to.
func destination(target, protocol string) (policy.Query, error) {
	if protocol == "" {
		return policy.ParseURL(target)
	}
	q, err := policy.ParseURL(protocol + "://" + target)
	if err != nil { // perhaps it is for all ports; then any will do
		port := "443"
		if protocol == "udp" {
			port = "1" // as there 443 is refused to everybody
		}
		q, err = policy.ParseURL(protocol + "://" + target + ":" + port)
	}
	return q, err
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
			r, err := supervisor.ChangePolicy(sb, supervisor.Change{Do: "reset", Targets: args})
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
