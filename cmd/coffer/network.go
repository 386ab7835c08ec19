package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
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
