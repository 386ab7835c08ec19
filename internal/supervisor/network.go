package supervisor

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// network is the gateway of a running sandbox and the user's own rules for it.
type network struct {
	gateway *gateway.Gateway
	served  chan struct{} // closed when the gateway has ended

	mu   sync.Mutex
	live []policy.RuleSource
}

// Policy is what a sandbox's network allows, and the rules among it that the user made
// with 'coffer policy'.
func Policy(sb *sandbox.Sandbox) (*policy.Set, []policy.RuleSource, error) {
	live, err := liveRules(sb)
	if err != nil {
		return nil, nil, err
	}
	set, err := compile(sb, live)
	if err != nil {
		return nil, nil, err
	}
	return set, live.Rules, nil
}

// liveRules are those that the user made and that have not expired.
func liveRules(sb *sandbox.Sandbox) (policy.Source, error) {
	live, err := sb.LiveRules()
	live.Rules = current(live.Rules, time.Now())
	return live, err
}

func compile(sb *sandbox.Sandbox, live policy.Source) (*policy.Set, error) {
	set, err := Compile(sb.Network, live)
	if err != nil {
		return nil, fmt.Errorf("the network rules of sandbox %s: %w", sb.Name, err)
	}
	return set, nil
}

// Compile makes the policy of a network, with the user's live changes.
func Compile(n sandbox.Network, live policy.Source) (*policy.Set, error) {
	return policy.Stack{Mode: n.Mode, Max: n.Max, Rules: n.Rules}.Compile(live)
}

// current leaves out what has expired.
func current(rules []policy.RuleSource, now time.Time) []policy.RuleSource {
	var keep []policy.RuleSource
	for _, r := range rules {
		if r.Expires.IsZero() || r.Expires.After(now) {
			keep = append(keep, r)
		}
	}
	return keep
}

// connect starts the gateway at the far end of the machine's link.
func (s *Supervisor) connect(rules *policy.Set, live []policy.RuleSource) error {
	if s.Sandbox.Network.None() {
		return nil
	}
	wire := s.instance.Link()
	if wire == nil {
		return ui.Error("this engine gives a sandbox no network", "go without one: --net none")
	}
	used, err := readBudgets(s.Sandbox)
	if err != nil {
		wire.Close()
		return err
	}
	if own, ok := wire.(interface{ Ports() []uint16 }); ok {
		s.forward.Hide(own.Ports()...)
	}
	sb := s.Sandbox
	config := gateway.Config{
		Policy: rules, Audit: s.audit.add, Denied: s.denied, Unreached: s.unreached,
		Asked: s.asked, Allow: s.allowCommand, Budgets: used, About: gateway.About{Name: sb.Name, ID: sb.ID},
		HostPorts: hostPorts(sb.Network), Serve: s.serveHost(),
	}
	n := &network{gateway: gateway.New(wire, config), served: make(chan struct{}), live: live}
	s.network = n // before anything can happen on it
	go s.keepBudgets(n)
	go func() {
		defer close(n.served)
		if err := n.gateway.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, "the network ended:", err)
		}
	}()
	return nil
}

// disconnect ends the gateway and remembers what budgets were used.
func (s *Supervisor) disconnect() {
	if s.network == nil {
		return
	}
	_ = s.network.gateway.Close()
	<-s.network.served
	s.saveBudgets(s.network.gateway.Budgets())
}

// Describe says what a question is about, all that a lasting answer would be about.
func Describe(r gateway.Request) string {
	if r.What != "" {
		return r.What
	}
	text := destination(r.Host, r.Addr, r.Port)
	switch {
	case r.Protocol == policy.UDP:
		text += " by UDP"
	case r.Method != "":
		text = r.Method + " " + r.Path + " of " + text
	}
	return text
}

// destination is a host and port as a target is written.
func destination(host string, addr netip.Addr, port uint16) string {
	if addr.IsValid() && (host == "" || host == addr.String()) {
		if port == 0 {
			return addr.String()
		}
		return netip.AddrPortFrom(addr, port).String()
	}
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// Ran writes down that a program is run.
func (s *Supervisor) Ran(e *wire.Exec) {
	if e == nil {
		return
	}
	const most = 64
	event := audit.Event{Kind: audit.KindExec, Detail: "in " + e.Dir}
	if e.Root {
		event.User = "root"
	}
	for _, a := range e.Argv[:min(len(e.Argv), most)] {
		event.Command = append(event.Command, string(a[:min(len(a), 4096)]))
	}
	s.audit.add(event)
}
