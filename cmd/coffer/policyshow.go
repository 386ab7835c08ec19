package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

// view is a policy and whose it is.
type view struct {
	whose   string
	sb      *sandbox.Sandbox // nil: there is none yet
	network sandbox.Network
	set     *policy.Set
}

// question reads what somebody wants to know about: [METHOD] URL.
func question(words []string) (policy.Query, error) {
	q, err := policy.ParseURL(words[len(words)-1])
	if err != nil {
		return q, ui.Hint(usage{err}, "write it as https://api.example.com/v1, api.example.com:443 or udp://time.example.com:123")
	}
	if len(words) > 1 {
		if q.Method == "" {
			return q, usagef("%s is for a URL with http:// or https://", terminal.Escape(words[0]))
		}
		q.Method = strings.ToUpper(words[0])
	}
	q.Now = time.Now()
	return q, nil
}

// decide answers as the gateway will.
func (v view) decide(q policy.Query) policy.Decision {
	return network.Decide(v.network, v.set, q)
}

func policyShow() *cobra.Command {
	var a about
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the rules, in the order in which they are heard",
		Long: `Show what a sandbox's network allows: its mode, the rules in the order in which they
are heard, ports of this machine that can be reached, and how much of a byte budget is
used up. Without a sandbox over this directory it is what a new one would have.`,
		Example: "  coffer policy show --sandbox calm-otter",
		RunE: func(*cobra.Command, []string) error {
			v, err := a.policy()
			if err != nil {
				return err
			}
			p, err := v.shown()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(p)
			}
			p.print()
			return nil
		},
	}
	a.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// shownPolicy is what policy show --json prints.
type shownPolicy struct {
	Of        string             `json:"of"`
	ID        string             `json:"id,omitempty"`
	Mode      string             `json:"mode"`
	Max       string             `json:"max,omitempty"` // the administrator's
	Default   policy.Verdict     `json:"default"`
	Rules     []policy.Shown     `json:"rules"`
	HostPorts []sandbox.HostPort `json:"host_ports"`
	Forwards  []sandbox.Forward  `json:"forwards"`
	Budgets   []network.Spent    `json:"budgets"`
}

func (v view) shown() (shownPolicy, error) {
	p := shownPolicy{
		Of: v.whose, Mode: v.network.Describe(), Max: v.network.Max, Default: v.set.Default(), Rules: v.set.Rules(),
		HostPorts: append([]sandbox.HostPort{}, v.network.HostPorts...), Forwards: []sandbox.Forward{}, Budgets: []network.Spent{},
	}
	if v.sb != nil {
		p.ID = v.sb.ID
		p.Forwards = append(p.Forwards, describe(v.sb, true).Forwards...)
		spent, err := network.Budgets(v.sb)
		if err != nil {
			return p, err
		}
		p.Budgets = append(p.Budgets, spent...)
	}
	return p, nil
}

func (p shownPolicy) print() {
	fmt.Fprintf(stdout, "the network of %s\n", p.Of)
	fmt.Fprintf(stdout, "mode %s", p.Mode)
	if p.Max != "" {
		fmt.Fprintf(stdout, ", %s at most, says the administrator", p.Max)
	}
	fmt.Fprintln(stdout)
	if p.Mode == "none" {
		return
	}
	for _, h := range p.HostPorts {
		fmt.Fprintf(stdout, "%s\n", describeHostPort(h))
	}
	for _, f := range p.Forwards {
		fmt.Fprintf(stdout, "%s\n", lead(wire.Forward(f)))
	}
	var rules ui.Table
	for _, r := range p.Rules {
		rules.Add(r.Text, r.Origin, bounds(r))
	}
	rules.Add(fmt.Sprintf("%s everything else", p.Default), "", "")
	_ = rules.Print(stdout)
	for _, b := range p.Budgets {
		fmt.Fprintf(stdout, "used of the budget of %s: %s up, %s down\n", terminal.Escape(b.Budget), size(b.Sent), size(b.Received))
	}
}

// bounds says how long a rule lasts, and how much may pass by it.
func bounds(r policy.Shown) string {
	var all []string
	if !r.Expires.IsZero() {
		all = append(all, "until "+r.Expires.Local().Format(time.DateTime))
	}
	if b := r.Budget; b != nil && b.MaxUpload > 0 {
		all = append(all, "at most "+size(b.MaxUpload)+" up")
	}
	if b := r.Budget; b != nil && b.MaxDownload > 0 {
		all = append(all, "at most "+size(b.MaxDownload)+" down")
	}
	return strings.Join(all, ", ")
}

func describeHostPort(h sandbox.HostPort) string {
	return fmt.Sprintf("%s:%d leads to port %d of this machine", link.HostName, h.Inside, h.Outside)
}

// asked is a question in the words of the command line, and the policy that answers it.
func (a *about) asked(words []string) (policy.Query, view, error) {
	q, err := question(words)
	if err != nil {
		return q, view{}, err
	}
	if q.Host == "localhost" || q.Addr.IsLoopback() { // inside that is the sandbox's own, with the ports of --host-port
		q.Host, q.Addr = link.HostName, netip.Addr{}
	}
	v, err := a.policy()
	return q, v, err
}

func policyCheck() *cobra.Command {
	var a about
	c := &cobra.Command{
		Use:   "check [METHOD] URL",
		Short: "Say whether a URL, or host:port, can be reached",
		Long: `Say whether a URL, or host:port, can be reached, from which sandbox, and which rule
decides. Where rules look at requests it is about one with METHOD, without it GET. A name
that the rules allow is looked up, as its address has to be allowed too; nothing is sent
to it. The exit code is 0 if it is allowed and 1 if it is refused or you would be asked.`,
		Example: "  coffer policy check https://api.example.com/v1\n  coffer policy check POST https://api.example.com/v1",
		RunE: func(c *cobra.Command, args []string) error {
			q, v, err := a.asked(args)
			if err != nil {
				return err
			}
			return v.check(c.Context(), strings.Join(args, " "), q)
		},
	}
	a.addTo(c)
	return c
}

// check prints whether a destination can be reached here and now.
func (v view) check(ctx context.Context, target string, q policy.Query) error {
	d := v.decide(q)
	var unreachable error
	if d.Verdict != policy.Deny && q.Host != "" && q.Host != link.HostName && q.Host != link.AboutName {
		var a netip.Addr
		if d, a, unreachable = gateway.Check(ctx, v.set, q, d); a.IsValid() {
			d.Reason = "the name leads to an address that is refused: " + d.Reason
			q.Host, q.Addr = "", a // the hint is about the address
		}
	}
	fmt.Fprintf(stdout, "%s: %s in %s: %s\n", d.Verdict, terminal.Escape(target), v.whose, terminal.Escape(d.Reason))
	if unreachable != nil {
		fmt.Fprintf(os.Stderr, "coffer: %s cannot be reached from this computer now: %s\n", terminal.Escape(q.Host), terminal.Escape(unreachable.Error()))
	}
	switch {
	case d.Verdict == policy.Allow:
		return nil
	case d.Rule == "default" || d.Rule == "address":
		fmt.Fprintln(os.Stderr, "hint: to allow it:", v.allowing(q))
	}
	return status(1)
}

func (v view) allowing(q policy.Query) string {
	host := q.Host
	if host == "" {
		host = q.Addr.String()
	}
	target, run, more := ui.Word(net.JoinHostPort(terminal.Escape(host), strconv.Itoa(int(q.Port)))), "", ""
	if q.Protocol == policy.UDP {
		run, more = "/udp", " --protocol udp"
	}
	if v.sb == nil {
		return "coffer run --allow " + target + run + " …"
	}
	return "coffer policy allow " + target + more + " --sandbox " + v.sb.Name
}

func policyExplain() *cobra.Command {
	var a about
	c := &cobra.Command{
		Use:     "explain [METHOD] URL",
		Short:   "Go through every rule about a URL, or host:port",
		Example: "  coffer policy explain http://example.com/admin",
		RunE: func(_ *cobra.Command, args []string) error {
			q, v, err := a.asked(args)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%s in %s\n", terminal.Escape(strings.Join(args, " ")), v.whose)
			var t ui.Table
			steps := v.set.Explain(q)
			if d := v.decide(q); d.Rule != v.set.Decide(q).Rule {
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
				t.Add(mark+s.Verdict.String(), s.Rule, s.Origin, s.Why)
			}
			return t.Print(stdout)
		},
	}
	a.addTo(c)
	return c
}
