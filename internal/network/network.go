// Package network is the network of one sandbox or jail: the gateway at the far end of its link,
// the rules that its user changes while it runs, the questions that wait for the user, and what
// is left of its byte budgets.
//
// Package gateway decides and relays flows and knows nothing of sandboxes. This package gives it
// the rules of a record, answers 'coffer policy', and makes lines for the user of what it refuses.
package network

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// Options connect a Network to the sandbox around it.
type Options struct {
	Log   func(audit.Event)
	Tell  func(line string) // shows the user a notice
	Serve http.Handler      // answers http://coffer.internal/
	// Authority signs for servers whose TLS is looked into; nil if no rule wants that.
	Authority *intercept.Authority
}

// A Network is the gateway of a running sandbox and the user's own rules for it.
type Network struct {
	sb       *sandbox.Sandbox
	o        Options
	fleeting bool // the sandbox is gone when the user reads what it refused
	gateway  *gateway.Gateway
	served   chan struct{} // closed when the gateway has ended
	closed   chan struct{}

	consents consents

	refusals refusals

	mu   sync.Mutex
	live []policy.RuleSource
}

// Start starts the gateway at the far end of a link, under the rules of a sandbox.
func Start(l link.Link, sb *sandbox.Sandbox, rules *Rules, o Options) (*Network, error) {
	used, err := readBudgets(sb)
	if err != nil {
		l.Close()
		return nil, err
	}
	n := newNetwork(sb, o)
	n.live = rules.live
	config := n.config(rules.set)
	config.Allow, config.Budgets, config.About = n.allowCommand, used, gateway.About{Name: sb.Name, ID: sb.ID}
	n.gateway = gateway.New(l, config)
	go n.keepBudgets()
	go func() {
		defer close(n.served)
		if err := n.gateway.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, "the network ended:", err)
		}
	}()
	return n, nil
}

func newNetwork(sb *sandbox.Sandbox, o Options) *Network {
	return &Network{sb: sb, o: o, fleeting: sb.Fleeting(), served: make(chan struct{}), closed: make(chan struct{})}
}

func (n *Network) config(rules *policy.Set) gateway.Config {
	return gateway.Config{
		Policy: rules, Audit: n.o.Log, Denied: n.denied, Unreached: n.unreached, Asked: n.asked,
		HostPorts: hostPorts(n.sb.Network), Serve: n.o.Serve, Authority: n.o.Authority,
	}
}

// Close ends the gateway and saves the budgets.
func (n *Network) Close() {
	if n == nil {
		return
	}
	close(n.closed)
	_ = n.gateway.Close()
	<-n.served
	n.saveBudgets(n.gateway.Budgets())
}

// Retell forgets what was told: it is news to a program that has just started.
func (n *Network) Retell() {
	if n == nil {
		return
	}
	n.gateway.Retell()
	n.refusals.reset()
}

// Rules are what a sandbox's network allows.
type Rules struct {
	set  *policy.Set
	live []policy.RuleSource // those of 'coffer policy' among them
}

// Load compiles the rules of a sandbox, with those that the user made with 'coffer policy'.
func Load(sb *sandbox.Sandbox) (*Rules, error) {
	set, live, err := Policy(sb)
	if err != nil {
		return nil, err
	}
	return &Rules{set, live}, nil
}

// Policy is what a sandbox's network allows, and the rules among it that the user made
// with 'coffer policy'.
func Policy(sb *sandbox.Sandbox) (*policy.Set, []policy.RuleSource, error) {
	live, err := sb.LiveRules()
	if err != nil {
		return nil, nil, err
	}
	live.Rules = current(live.Rules, time.Now())
	set, err := Compile(sb.Network, live)
	if err != nil {
		return nil, nil, fmt.Errorf("the network rules of sandbox %s: %w", sb.Name, err)
	}
	return set, live.Rules, nil
}

// Compile makes the policy of a network, with the user's live changes.
func Compile(n sandbox.Network, live policy.Source) (*policy.Set, error) {
	return policy.Stack{Mode: n.Mode, Max: n.Max, Rules: n.Rules}.Compile(live)
}

// current leaves out expired rules.
func current(rules []policy.RuleSource, now time.Time) []policy.RuleSource {
	var keep []policy.RuleSource
	for _, r := range rules {
		if r.Expires.IsZero() || r.Expires.After(now) {
			keep = append(keep, r)
		}
	}
	return keep
}

// Decide is what the gateway of a sandbox says about a destination: coffer's own names are
// none of the rules' business, and a bare address must also be one that may be dialled.
func Decide(n sandbox.Network, set *policy.Set, q policy.Query) policy.Decision {
	if n.None() {
		return policy.Decision{Rule: "built-in", Verdict: policy.Deny, Reason: "there is no network"}
	}
	if d, own := gateway.Internal(q, hostPorts(n)); own {
		return d
	}
	if q.Protocol == policy.UDP && q.Port == 443 {
		return policy.Decision{Rule: "built-in", Verdict: policy.Deny, Reason: "QUIC is refused, so that programs use TLS over TCP"}
	}
	d := set.Decide(q)
	if q.Host == "" && (d.Verdict != policy.Deny || d.Rule == "default") {
		// Which addresses are the host's own is for the gateway to find out.
		if v := set.Address(q, q.Addr, nil); v.Verdict == policy.Deny {
			return v
		}
	}
	return d
}

func hostPorts(n sandbox.Network) (ports []gateway.HostPort) {
	for _, p := range n.HostPorts {
		ports = append(ports, gateway.HostPort(p))
	}
	return ports
}
