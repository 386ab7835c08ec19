package main

import (
	"cmp"
	"fmt"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/jail"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
)

// jailNetwork is what a program in a jail can reach: as in a sandbox, or this machine's own network.
type jailNetwork struct {
	networkFlags
	given *sandbox.Network // decided already, whatever flags and config say
	rules sandbox.Network
	must  bool // by the administrator, or by who asked for rules: they are kept, or nothing is run
	told  *tellings
}

// network decides what the network is to be: by flags, and by the user's own config.
func (s *jailSettings) network(l *config.Loaded) (err error) {
	if s.net == jail.NetHost {
		if len(s.allow)+len(s.deny)+len(s.hostPorts) > 0 {
			return usagef("--net host has no rules, and no need of ports")
		}
		s.Net = jail.NetHost
		return nil
	}
	switch {
	case s.given != nil:
		s.rules = *s.given
	default:
		if s.rules, err = networkFor(cmp.Or(s.net, l.Config.Network.Mode), s.hostPorts); err != nil {
			return err
		}
		if s.rules.Rules, err = s.networkFlags.rules(); err != nil {
			return err
		}
		if s.net != jail.NetNone {
			if err := addNetwork(l, &s.rules); err != nil {
				return err
			}
		}
	}
	s.Net = jail.NetRules
	if s.rules.None() {
		s.Net = jail.NetNone
	}
	return nil
}

// connect prepares the far end of the network.
func (s *jailSettings) connect() error {
	s.told = &tellings{later: terminal.IsTerminal(2)}
	if s.Net != jail.NetRules {
		return nil
	}
	store, err := sandbox.DefaultDir()
	if err != nil {
		return err
	}
	far := network.NewJail(store, sandbox.Record{
		Command: printable(s.Argv), Network: s.rules,
		Workspace: sandbox.Workspace{Path: s.Context, Mode: sandbox.WorkspaceDirect},
	})
	far.Tell = s.told.tell
	s.Policy.Rules = &jail.Rules{Connect: far.Connect, Must: s.must, Ports: func() ([]confine.PortRange, bool, error) {
		return jailPorts(far.Rules())
	}}
	return nil
}

// jailPorts are the ports of the rules, and that of DNS, where only ports can be told apart.
func jailPorts(set *policy.Set, err error) (ports []confine.PortRange, every bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	list, every := set.TCPPorts()
	if len(list) > 0 {
		ports = append(ports, confine.PortRange{First: 53, Last: 53})
	}
	for _, r := range list {
		ports = append(ports, confine.PortRange{First: r[0], Last: r[1]})
	}
	return ports, every, nil
}

// findJail finds the record of a jail's network, nil if there is none.
func findJail(match string) *sandbox.Sandbox {
	store, err := jailStore()
	if err != nil || match == "" {
		return nil
	}
	sb, _ := store.Find(match)
	return sb
}

func jailStore() (*sandbox.Store, error) {
	dir, err := sandbox.DefaultDir()
	if err != nil {
		return nil, err
	}
	return sandbox.Open(network.JailStore(dir))
}

// tellings are notices about the network. While the program has the terminal, only urgent ones are shown.
type tellings struct {
	later bool

	mu    sync.Mutex
	lines []string
	told  int
}

// mostTold is how many lines are shown: a program may try a thousand hosts.
const mostTold = 8

func (t *tellings) tell(line string, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line = "coffer: " + terminal.Escape(line)
	if now && t.later { // whatever the program has done to the terminal
		fmt.Fprint(os.Stderr, "\r\n"+line+"\r\n")
		return
	}
	switch t.told++; {
	case t.told > mostTold:
	case t.later:
		t.lines = append(t.lines, line)
	default:
		fmt.Fprintln(os.Stderr, line)
	}
}

// flush shows what waits.
func (t *tellings) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		fmt.Fprintln(os.Stderr, line)
	}
	if more := t.told - mostTold; more > 0 {
		fmt.Fprintf(os.Stderr, "coffer: %d more refusals are not shown; see 'coffer audit'\n", more)
	}
}
