package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
)

// standard is the policy of a sandbox about whose network nothing is said.
const standard = "standard"

// networkFor is the network that the flags ask for.
func networkFor(mode string, hostPorts []string) (n sandbox.Network, err error) {
	n.Mode = mode
	if mode == "" {
		n.Mode = standard
	}
	if !slices.Contains(policy.Modes, n.Mode) {
		return n, usagef("there is no network %q: choose one of %s", mode, strings.Join(policy.Modes, ", "))
	}
	for _, p := range hostPorts {
		port, err := parseHostPort(p)
		if err != nil {
			return n, err
		}
		if n.None() {
			return n, usagef("a sandbox without a network cannot reach port %s of this host", p)
		}
		n.HostPorts = append(n.HostPorts, port)
	}
	return n, nil
}

// rules are what --allow and --deny say: a layer like that of 'coffer policy'.
func (s *settings) rules() ([]policy.Source, error) {
	layer := policy.Source{Grants: true}
	add := func(flag, target string) error {
		host, protocol := target, ""
		for _, p := range []string{"tcp", "udp", "tls", "http"} {
			if h, ok := strings.CutSuffix(target, "/"+p); ok {
				host, protocol = h, p
			}
		}
		if _, err := policy.ParseTarget(host); err != nil {
			return ui.Hint(usagef("%s: %w", flag, err), "a target is a host, *.example.com, an address range or @GROUP, and may end in :PORT; see 'coffer policy --help'")
		}
		r := supervisor.RuleFor(host, flag == "--allow")
		r.Protocol, r.Origin = protocol, flag
		layer.Rules = append(layer.Rules, r)
		return nil
	}
	for _, t := range s.deny {
		if err := add("--deny", t); err != nil {
			return nil, err
		}
	}
	for _, t := range s.allow {
		if err := add("--allow", t); err != nil {
			return nil, err
		}
	}
	if len(layer.Rules) == 0 {
		return nil, nil
	}
	return []policy.Source{layer}, nil
}

// addNetwork adds what is known about a sandbox's network beyond its record.
func (d *described) addNetwork(sb *sandbox.Sandbox) error {
	live, err := sb.LiveRules()
	d.Live = live.Rules
	if err == nil && d.State != "starting" && d.State != "suspended" {
		d.Budgets, err = supervisor.Budgets(sb)
	}
	return err
}

// showNetwork prints what a sandbox may reach, in short.
func showNetwork(d described, row func(name, value string)) {
	n, text := 0, d.Network.Describe()
	for _, s := range d.Network.Rules {
		n += len(s.Rules) + len(s.Groups)
	}
	if n += len(d.Live); n > 0 {
		text += fmt.Sprintf(", and %s: see 'coffer policy show -m %s'", count(n, "rule"), d.Name)
	}
	row("network", text)
	for _, h := range d.Network.HostPorts {
		row("host port", describeHostPort(h))
	}
	for _, b := range d.Budgets {
		row("budget", fmt.Sprintf("%s: used %s up, %s down", b.Budget, amount(b.Sent), amount(b.Received)))
	}
}

// parseHostPort reads P, or INSIDE:OUTSIDE.
func parseHostPort(s string) (p sandbox.HostPort, err error) {
	inside, outside, both := strings.Cut(s, ":")
	if !both {
		outside = inside
	}
	for _, part := range []struct {
		text string
		to   *uint16
	}{{inside, &p.Inside}, {outside, &p.Outside}} {
		n, err := strconv.ParseUint(part.text, 10, 16)
		if err != nil || n == 0 {
			return p, usagef("%q is not a port, nor two with a colon between", s)
		}
		*part.to = uint16(n)
	}
	return p, nil
}
