package main

import (
	"cmp"
	"fmt"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/jail"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

// jailNetwork is what a program in a jail can reach: the same flags, config and gateway
// as in a sandbox, and one choice more, this machine's own network.
type jailNetwork struct {
	net             string
	reach, keepFrom []string
	hostPorts       []string

	given *sandbox.Network // decided already, whatever flags and config say
	rules sandbox.Network
	must  bool // by the administrator, or by who asked for rules: they are kept, or nothing is run
	told  *tellings
}

func (s *jailSettings) addNetworkTo(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.net, "net", "", "what the network allows: `POLICY` is none, standard (what development needs, the default), ask (you, for the rest), open (anything public) or host (no rules, this machine's own)")
	f.StringArrayVar(&s.reach, "allow", nil, "let the program reach `TARGET` as well: see 'coffer run --help'")
	f.StringArrayVar(&s.keepFrom, "deny", nil, "keep the program from reaching `TARGET`, whatever else allows it")
	f.StringArrayVar(&s.hostPorts, "host-port", nil, "let the program reach `PORT` of this machine's loopback as host.coffer.internal:PORT (or INSIDE:OUTSIDE)")
	_ = c.RegisterFlagCompletionFunc("net", cobra.FixedCompletions(append([]string{jail.NetHost}, policy.Modes...), cobra.ShellCompDirectiveNoFileComp))
}

// network decides what the network is to be: by flags, and by the user's own config.
func (s *jailSettings) network(l *config.Loaded) (err error) {
	if s.given != nil {
		s.rules = *s.given
		s.Net = netFor(s.rules)
		return nil
	}
	if s.net == jail.NetHost {
		if len(s.reach)+len(s.keepFrom)+len(s.hostPorts) > 0 {
			return usagef("--net host has no rules, and no need of ports")
		}
		s.Net = jail.NetHost
		return nil
	}
	if s.rules, err = networkFor(cmp.Or(s.net, l.Config.Network.Mode), s.hostPorts); err != nil {
		return err
	}
	flags := settings{allow: s.reach, deny: s.keepFrom}
	if s.rules.Rules, err = flags.rules(); err != nil {
		return err
	}
	if s.net != jail.NetNone {
		if err := addNetwork(l, &s.rules); err != nil {
			return err
		}
	}
	s.Net = netFor(s.rules)
	return nil
}

// netFor is the kind of network that rules make.
func netFor(n sandbox.Network) string {
	if n.None() {
		return jail.NetNone
	}
	return jail.NetRules
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
	far := supervisor.NewJailed(store, sandbox.Record{
		Command: printable(s.Argv), Network: s.rules,
		Workspace: sandbox.Workspace{Path: s.Context, Mode: sandbox.WorkspaceDirect},
	})
	far.Tell = s.told.tell
	s.Policy.Rules = &jail.Rules{Connect: far.Connect, Must: s.must, Ports: func() ([]confine.PortRange, bool, error) {
		return jailPorts(far.Rules())
	}}
	return nil
}

// jailPorts are the ports that are left where only ports can be told apart. Names have to
// be looked up somewhere.
func jailPorts(set *policy.Set, err error) (ports []confine.PortRange, every bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	list, every := set.TCPPorts()
	if len(list) > 0 {
		ports = append(ports, confine.PortRange{First: dnsPort, Last: dnsPort})
	}
	for _, r := range list {
		ports = append(ports, confine.PortRange{First: r[0], Last: r[1]})
	}
	return ports, every, nil
}

const dnsPort = 53

// findJail finds the record of a jail's network, nil if there is none.
func findJail(match string) *sandbox.Sandbox {
	store, err := jailStore()
	if err != nil || match == "" {
		return nil
	}
	sb, _ := store.Find(match)
	return sb
}

// jails are all that are there.
func jails() []*sandbox.Sandbox {
	store, err := jailStore()
	if err != nil {
		return nil
	}
	all, _ := store.List()
	return all
}

func jailStore() (*sandbox.Store, error) {
	dir, err := sandbox.DefaultDir()
	if err != nil {
		return nil, err
	}
	return sandbox.Open(supervisor.JailStore(dir))
}

// tellings are lines for the user about the network. While the program has the terminal, all but
// the urgent ones wait until it has ended.
type tellings struct {
	later bool

	mu    sync.Mutex
	lines []string
	more  int
}

// mostTold is how many lines are shown: a program may try a thousand hosts.
const mostTold = 8

func (t *tellings) tell(line string, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now && t.later {
		// Whatever the program has done to the terminal.
		fmt.Fprint(os.Stderr, "\r\ncoffer: "+terminal.Escape(line)+"\r\n")
		return
	}
	if len(t.lines) == mostTold {
		t.more++
		return
	}
	t.lines = append(t.lines, line)
	if !t.later {
		fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(line))
	}
}

// flush shows what waits.
func (t *tellings) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.later {
		for _, line := range t.lines {
			fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(line))
		}
	}
	if t.more > 0 {
		fmt.Fprintf(os.Stderr, "coffer: %d more refusals are not shown; see 'coffer audit'\n", t.more)
	}
}
