package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

// standard is the policy of a sandbox about whose network nothing is said.
const standard = "standard"

type networkFlags struct {
	net                    string
	allow, deny, hostPorts []string
}

// addTo adds the flags, of which --net has these modes, the last of them in words.
func (n *networkFlags) addTo(c *cobra.Command, modes []string, last string) {
	f := c.Flags()
	f.StringVar(&n.net, "net", "", "what the network allows: `POLICY` is none, standard (what development needs, the default), ask (you, for the rest)"+last)
	_ = c.RegisterFlagCompletionFunc("net", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
	f.StringArrayVar(&n.allow, "allow", nil, "let programs reach `TARGET` as well: api.example.com:443, *.example.com, 10.0.0.0/8:5432, @npm; /udp at its end is for UDP")
	f.StringArrayVar(&n.deny, "deny", nil, "keep programs from reaching `TARGET`, whatever else allows it")
	f.StringArrayVar(&n.hostPorts, "host-port", nil, "let programs reach `PORT` of this machine's loopback as host.coffer.internal:PORT, and in a sandbox as localhost:PORT (or INSIDE:OUTSIDE)")
}

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
func (s *networkFlags) rules() ([]policy.Source, error) {
	layer := policy.Source{Grants: true}
	for _, flag := range []string{"--deny", "--allow"} {
		targets := s.deny
		if flag == "--allow" {
			targets = s.allow
		}
		for _, target := range targets {
			host, protocol := target, ""
			if at := strings.LastIndexByte(target, '/'); at > 0 && slices.Contains([]string{"tcp", "udp", "tls", "http"}, target[at+1:]) {
				host, protocol = target[:at], target[at+1:]
			}
			if _, err := policy.ParseTarget(host); err != nil {
				return nil, ui.Hint(usagef("%s: %w", flag, err), "a target is a host, *.example.com, an address range or @GROUP, and may end in :PORT; see 'coffer policy --help'")
			}
			r := network.RuleFor(host, flag == "--allow")
			r.Protocol, r.Origin = protocol, flag
			layer.Rules = append(layer.Rules, r)
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
		d.Budgets, err = network.Budgets(sb)
	}
	return err
}

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
		row("budget", fmt.Sprintf("%s: used %s up, %s down", b.Budget, size(b.Sent), size(b.Received)))
	}
}

func parseHostPort(s string) (sandbox.HostPort, error) {
	p, err := config.Port(s).Parse()
	if err != nil {
		err = usage{err}
	}
	return p, err
}

// noteRefused names --host-port for the ports of localhost that refused a program that failed, and at
// which this machine listens.
func noteRefused(exit wire.Exit) {
	for _, port := range exit.Refused {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			attach.Note(fmt.Sprintf("localhost:%d inside is the sandbox's own; --host-port %d leads to the one of this machine", port, port))
		}
	}
}
