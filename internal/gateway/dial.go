package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
)

const (
	// maxCandidates bounds how many addresses of a name are tried. All are vetted.
	maxCandidates = 16
	// stagger is how long one try is left alone before the next begins (RFC 8305).
	stagger = 250 * time.Millisecond
)

// dial connects to an address. A peer that is gone without a word is noticed by keep-alives.
func dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Control: halfThePorts, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 9}}
	return d.DialContext(ctx, network, to.String())
}

// connect dials the destination of a query that was decided: directly, at an address that the
// policy allows, or by the host's proxy. The address is not valid for a proxy.
func (g *Gateway) connect(ctx context.Context, q policy.Query, d policy.Decision) (net.Conn, netip.Addr, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, g.limits.dial)
	defer cancel()
	proxy, good, r := g.route(ctx, q, d)
	if r != nil {
		return nil, netip.Addr{}, r
	}
	if proxy != nil {
		c, err := g.dialProxy(ctx, proxy, named(q), q.Port)
		if err != nil {
			return nil, netip.Addr{}, unreachable(err)
		}
		return c, netip.Addr{}, nil
	}
	c, a, err := g.race(ctx, "tcp", good, q.Port)
	if err != nil {
		return nil, netip.Addr{}, unreachable(err)
	}
	return c, a, nil
}

// route finds the way to the destination of a query that was decided: the host's proxy, or
// at least one address that the policy allows.
func (g *Gateway) route(ctx context.Context, q policy.Query, d policy.Decision) (*url.URL, []netip.Addr, *refusal) {
	good, bad, r := g.candidates(ctx, q, d)
	proxy := g.proxy(q)
	switch {
	case proxy != nil && bad != nil: // the proxy chooses the address, so one that may not be dialled is enough
		return nil, nil, bad
	case proxy != nil && r != nil && !d.Exact && d.Verdict != policy.Ask: // Ask: the user has named it
		return nil, nil, denied(policy.Decision{Rule: unresolvedRule, Reason: "this computer cannot resolve the name, " +
			"so where its proxy would lead cannot be checked; only a rule that names the host itself allows that"})
	case proxy != nil:
		return proxy, nil, nil
	case r != nil:
		return nil, nil, r
	case len(good) == 0:
		return nil, nil, bad
	}
	return nil, good, nil
}

// Check says what a connection that d allows would meet now: it resolves the name and vets the
// addresses, and dials nothing. If no address may be dialled, it returns that decision and one
// of the addresses; if there is no address, an error.
func Check(ctx context.Context, set *policy.Set, q policy.Query, d policy.Decision) (policy.Decision, netip.Addr, error) {
	g := &Gateway{cfg: Config{}.filled(), names: newPace(1, namesEvery), budgets: newBudgets(nil)}
	g.policy.Store(set)
	ctx, cancel := context.WithTimeout(ctx, defaults().dial)
	defer cancel()
	_, _, r := g.route(ctx, q, d)
	switch {
	case r == nil:
		return d, netip.Addr{}, nil
	case r.what == "unreachable":
		return d, netip.Addr{}, errors.New(r.decision.Reason)
	}
	return r.decision, r.addr, nil
}

// proxy is the host's own way out to a destination, nil for none: a proxy carries no datagrams.
func (g *Gateway) proxy(q policy.Query) *url.URL {
	if g.cfg.Proxy == nil || q.Protocol == policy.UDP {
		return nil
	}
	return g.cfg.Proxy(named(q), q.Port)
}

// named is the destination of a query as text.
func named(q policy.Query) string {
	if q.Host != "" {
		return q.Host
	}
	return q.Addr.String()
}

// candidates returns the addresses of a destination that may be dialled, the refusal of one
// that may not, and why there are no addresses at all.
func (g *Gateway) candidates(ctx context.Context, q policy.Query, d policy.Decision) (good []netip.Addr, bad, none *refusal) {
	addrs := []netip.Addr{q.Addr}
	if q.Host != "" {
		if !d.Exact && d.Verdict == policy.Allow && d.Rule != defaultRule {
			if r := g.mayName(q.Host, d); r != nil {
				return nil, nil, r
			}
		}
		var err error
		if addrs, err = g.cfg.Resolve(ctx, q.Host); err != nil {
			return nil, nil, unreachable(fmt.Errorf("the name cannot be resolved: %w", plainLookup(err)))
		}
		if len(addrs) == 0 {
			return nil, nil, unreachable(errors.New("the name has no address"))
		}
	}
	set := g.policy.Load()
	q.Now = time.Now()
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		if v := g.vet(set, q, a, d); v.Verdict != policy.Allow {
			bad = deniedAddress(v, a)
			continue
		}
		good = append(good, a)
	}
	good = interleave(good)
	return good[:min(len(good), maxCandidates)], bad, nil
}

// vet decides about an address that is to be dialled for a query that was decided as d.
// Where a rule asks about the address, a yes to that very address was the answer.
func (g *Gateway) vet(set *policy.Set, q policy.Query, a netip.Addr, d policy.Decision) policy.Decision {
	v := set.Address(q, a, g.cfg.Own)
	if v.Verdict == policy.Ask && d.Verdict == policy.Ask && q.Host == "" {
		v.Verdict = policy.Allow
	}
	return v
}

// special refuses to ask the user about a bare address that a yes could not open: only
// rules do that.
func (g *Gateway) special(set *policy.Set, q policy.Query, d policy.Decision) *refusal {
	if q.Host != "" {
		return nil
	}
	if v := g.vet(set, q, q.Addr, d); v.Verdict != policy.Allow {
		return deniedAddress(v, q.Addr)
	}
	return nil
}

// plainLookup says why a look-up failed without naming the host's name servers.
func plainLookup(err error) error {
	var d *net.DNSError
	switch {
	case errors.As(err, &d) && d.IsNotFound:
		return errors.New("no such host")
	case isTimeout(err):
		return errors.New("the host's resolver did not answer in time")
	}
	return errors.New("the host's resolver failed")
}

// interleave lets the two families take turns, beginning with that of the first.
func interleave(addrs []netip.Addr) []netip.Addr {
	var first, second, out []netip.Addr
	for _, a := range addrs {
		if a.Is4() == addrs[0].Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	for n := range max(len(first), len(second)) {
		if n < len(first) {
			out = append(out, first[n])
		}
		if n < len(second) {
			out = append(out, second[n])
		}
	}
	return out
}

type attempt struct {
	conn net.Conn
	addr netip.Addr
	err  error
}

// race dials addresses one after the other, without waiting long for any, and returns
// the first connection. The others are given up.
func (g *Gateway) race(ctx context.Context, network string, addrs []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	if len(addrs) == 1 {
		c, err := g.cfg.Dial(ctx, network, netip.AddrPortFrom(addrs[0], port))
		return c, addrs[0], plainDial(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan attempt, len(addrs))
	var running sync.WaitGroup
	next := 0
	launch := func() {
		a := addrs[next]
		next++
		running.Go(func() {
			c, err := g.cfg.Dial(ctx, network, netip.AddrPortFrom(a, port))
			results <- attempt{c, a, err}
		})
	}
	defer func() { // whoever comes second is closed
		cancel()
		late := func() {
			running.Wait()
			close(results)
			for l := range results {
				if l.err == nil {
					_ = l.conn.Close()
				}
			}
		}
		if !g.start(late) {
			late()
		}
	}()
	launch()
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	for pending := 1; ; {
		var last attempt
		select {
		case last = <-results:
			if last.err == nil {
				return last.conn, last.addr, nil
			}
			pending--
		case <-timer.C:
		}
		switch {
		case next < len(addrs):
			launch()
			pending++
			timer.Reset(stagger)
		case pending == 0:
			return nil, netip.Addr{}, plainDial(last.err)
		}
	}
}

// plainDial says in short why a connection could not be made.
func plainDial(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return errors.New("the connection timed out")
	}
	return plain(err)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// dialHost connects to a port of the host's loopback interface.
func (g *Gateway) dialHost(ctx context.Context, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.limits.dial)
	defer cancel()
	c, err := g.cfg.Dial(ctx, "tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	if err != nil {
		if c, err = g.cfg.Dial(ctx, "tcp", netip.AddrPortFrom(netip.IPv6Loopback(), port)); err != nil {
			return nil, plainDial(err)
		}
	}
	return c, nil
}
