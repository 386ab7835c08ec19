package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
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
	return choice{none: "choose one with --sandbox, see 'coffer list'", many: "choose one with --sandbox"}.choose(store, a.match)
}

// policy is that of the sandbox, or what a new one would have.
func (a *about) policy() (set *policy.Set, whose string, err error) {
	sb, err := a.sandbox()
	if err == nil {
		set, _, err = supervisor.Policy(sb)
		return set, "sandbox " + sb.Name, err
	}
	if a.match != "" {
		return nil, "", err
	}
	n, err := newNetwork()
	if err != nil {
		return nil, "", err
	}
	set, err = supervisor.Compile(n, policy.Source{})
	return set, "a new sandbox", err
}

func policyShow() *cobra.Command {
	var a about
	var asJSON bool
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show the rules, in the order in which they are heard",
		Example: "  coffer policy show --sandbox calm-otter",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			set, whose, err := a.policy()
			if err != nil {
				return err
			}
			rules := set.Rules()
			if asJSON {
				return printJSON(struct {
					Of      string         `json:"of"`
					Default policy.Verdict `json:"default"`
					Rules   []policy.Shown `json:"rules"`
				}{whose, set.Default(), rules})
			}
			fmt.Printf("the network of %s\n", whose)
			w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
			for _, r := range rules {
				until := ""
				if !r.Expires.IsZero() {
					until = "until " + r.Expires.Local().Format(time.DateTime)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", terminal.Escape(r.Text), terminal.Escape(r.Origin), until)
			}
			fmt.Fprintf(w, "%s everything else\t\t\n", set.Default())
			return w.Flush()
		},
	}
	a.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func policyCheck() *cobra.Command {
	var a about
	c := &cobra.Command{
		Use:   "check URL",
		Short: "Say whether a URL, or host:port, can be reached",
		Long: `Say whether a URL, or host:port, can be reached, and which rule decides. Nothing is
sent anywhere. The exit code is 0 if it is allowed and 1 if not.`,
		Example: "  coffer policy check https://api.example.com/v1",
		Args:    exactly(1, "a URL, or host:port"),
		RunE: func(_ *cobra.Command, args []string) error {
			set, whose, err := a.policy()
			if err != nil {
				return err
			}
			q, err := policy.ParseURL(args[0])
			if err != nil {
				return usage{err}
			}
			q.Now = time.Now()
			d := decide(set, q)
			fmt.Printf("%s: %s in %s: %s\n", d.Verdict, terminal.Escape(args[0]), whose, terminal.Escape(d.Reason))
			if d.Verdict != policy.Allow {
				return status(1)
			}
			return nil
		},
	}
	a.addTo(c)
	return c
}

// decide answers as the gateway will: an address must also be one that may be dialled.
func decide(set *policy.Set, q policy.Query) policy.Decision {
	d := set.Decide(q)
	if q.Host == "" && d.Verdict != policy.Deny {
		if v := set.Address(q, q.Addr, nil); v.Verdict == policy.Deny {
			return v
		}
	}
	return d
}

func policyExplain() *cobra.Command {
	var a about
	c := &cobra.Command{
		Use:     "explain URL",
		Short:   "Go through every rule about a URL, or host:port",
		Example: "  coffer policy explain http://example.com/admin",
		Args:    exactly(1, "a URL, or host:port"),
		RunE: func(_ *cobra.Command, args []string) error {
			set, whose, err := a.policy()
			if err != nil {
				return err
			}
			q, err := policy.ParseURL(args[0])
			if err != nil {
				return usage{err}
			}
			q.Now = time.Now()
			fmt.Printf("%s in %s\n", terminal.Escape(args[0]), whose)
			w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
			steps := set.Explain(q)
			if d := decide(set, q); d.Rule != set.Decide(q).Rule {
				for i := range steps {
					steps[i].Decides = false
				}
				steps = append(steps, policy.Step{Verdict: d.Verdict, Rule: d.Rule, Origin: d.Origin, Decides: true, Why: d.Reason})
			}
			for _, s := range steps {
				mark := "  "
				if s.Decides {
					mark = "→ "
				}
				fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\n", mark, s.Verdict, terminal.Escape(s.Rule), terminal.Escape(s.Origin), terminal.Escape(s.Why))
			}
			return w.Flush()
		},
	}
	a.addTo(c)
	return c
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
			return printNetwork(c.Context(), os.Stdout, sb, follow)
		},
	}
	a.addTo(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the sandbox stops")
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
			if err != nil {
				return err
			}
			if _, err := supervisor.ChangePolicy(sb, change); err != nil {
				return err
			}
			return stillDecides(sb, args, allow)
		},
	}
	a.addTo(c)
	c.Flags().DurationVar(&lasts, "for", 0, "how long the rule lasts, such as 1h (default: until it is reset)")
	c.Flags().StringVar(&protocol, "protocol", "", "limit the rule to tcp, udp, tls or http")
	return c
}

// stillDecides warns when another rule has the last word about what was just allowed.
func stillDecides(sb *sandbox.Sandbox, targets []string, allow bool) error {
	if !allow {
		return nil
	}
	set, _, err := supervisor.Policy(sb)
	if err != nil {
		return err
	}
	for _, t := range targets {
		q, err := policy.ParseURL(t)
		if err != nil {
			continue // a pattern: not one destination
		}
		if d := decide(set, q); d.Verdict == policy.Deny {
			fmt.Fprintf(os.Stderr, "coffer: warning: %s stays refused: %s\n", terminal.Escape(t), terminal.Escape(d.Reason))
		}
	}
	return nil
}

func policyReset() *cobra.Command {
	var a about
	c := &cobra.Command{
		Use:     "reset [TARGET…]",
		Short:   "Take back what 'coffer policy' changed, all of it or for some targets",
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
				return hint.New("no rule of 'coffer policy' has such a target", "see 'coffer policy show'")
			}
			fmt.Fprintf(os.Stderr, "coffer: took back %s\n", count(r.Rules, "rule"))
			return nil
		},
	}
	a.addTo(c)
	return c
}

func policyPending() *cobra.Command {
	var a about
	var asJSON bool
	c := &cobra.Command{
		Use:     "pending",
		Short:   "List the connections that wait for your answer",
		Example: "  coffer policy pending --sandbox calm-otter",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			r, err := supervisor.ChangePolicy(sb, supervisor.Change{Do: "pending"})
			if err != nil {
				return err
			}
			if asJSON {
				if r.Pending == nil {
					r.Pending = []gateway.Request{}
				}
				return printJSON(r.Pending)
			}
			if len(r.Pending) == 0 {
				fmt.Fprintln(os.Stderr, "nothing waits for an answer")
				return nil
			}
			w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "NUMBER\tDESTINATION\tWAITS\tCONNECTIONS\tWHY")
			for _, q := range r.Pending {
				fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\n", q.ID, terminal.Escape(supervisor.Describe(q)),
					time.Since(q.Since).Round(time.Second), q.Flows, terminal.Escape(q.Reason))
			}
			return w.Flush()
		},
	}
	a.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func policyAnswer() *cobra.Command {
	var a about
	var lasts time.Duration
	var once, always bool
	c := &cobra.Command{
		Use:   "answer NUMBER allow|deny",
		Short: "Answer a connection that waits",
		Long: `Answer a connection that waits. The answer becomes a rule of the sandbox, until it is
reset; with --for it lasts so long, and with --once it is for what waits now only.`,
		Example: "  coffer policy answer 1 allow --for 1h",
		Args:    exactly(2, "the number of a question and allow or deny"),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := strconv.Atoi(args[0])
			if err != nil || args[1] != "allow" && args[1] != "deny" {
				return hint.Wrap(usagef("want the number of a question and allow or deny"), "see 'coffer policy pending'")
			}
			if once && (always || lasts != 0) || always && lasts != 0 || lasts < 0 {
				return usagef("choose one of --for, --once and --always")
			}
			sb, err := a.sandbox()
			if err != nil {
				return err
			}
			change := supervisor.Change{Do: "answer", ID: id, Allow: args[1] == "allow", Once: once}
			if lasts > 0 {
				change.Expires = time.Now().Add(lasts).UTC()
			}
			_, err = supervisor.ChangePolicy(sb, change)
			return err
		},
	}
	a.addTo(c)
	c.Flags().DurationVar(&lasts, "for", 0, "how long the answer holds, such as 1h")
	c.Flags().BoolVar(&once, "once", false, "for what waits now only")
	c.Flags().BoolVar(&always, "always", false, "until it is reset (the default)")
	return c
}

func policyGroups() *cobra.Command {
	c := &cobra.Command{
		Use:     "groups [NAME]",
		Short:   "List the built-in groups of hosts, or what is in one",
		Example: "  coffer policy groups npm",
		Args:    atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
			found := false
			for _, g := range policy.Groups() {
				switch {
				case len(args) == 0:
					fmt.Fprintf(w, "%s\t%s\n", g.Name, g.About)
				case g.Name == args[0]:
					found = true
					fmt.Fprintln(w, strings.Join(g.Targets, "\n"))
				}
			}
			if len(args) > 0 && !found {
				return hint.Wrap(usagef("there is no group %q", args[0]), "see 'coffer policy groups'")
			}
			return w.Flush()
		},
	}
	return c
}

// exactly is for commands that take so many arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return hint.Wrap(usagef("want %s", what), "see '%s --help'", c.CommandPath())
		}
		return nil
	}
}

// some is for commands that take at least one argument.
func some(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return hint.Wrap(usagef("want %s", what), "see '%s --help'", c.CommandPath())
		}
		return nil
	}
}
