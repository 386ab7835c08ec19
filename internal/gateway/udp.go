package gateway

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

const (
	maxDatagram = 1 << 16
	// maxReply is the longest datagram that is taken from outside. Longer ones are
	// lost, as they are on most networks.
	maxReply = 16 << 10
	// queued is how many datagrams of a session wait for its decision and its socket.
	queued = 16
	// queuedBytes is how long they are together.
	queuedBytes = 64 << 10
	quicPort    = 443
)

// datagrams takes what programs send by UDP.
func (g *Gateway) datagrams() error {
	b := make([]byte, maxDatagram)
	for pause := time.Duration(0); ; {
		n, from, to, err := g.link.ReadDatagram(b)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if !passing(err) {
				return err
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			if !g.sleep(pause) {
				return nil
			}
			continue
		}
		pause = 0
		if to.Port() != dnsPort || !own(from) {
			g.sessions.datagram(b[:n], from, to)
			continue
		}
		if n > maxQuery {
			continue
		}
		select {
		case g.queries <- struct{}{}:
			query := append([]byte(nil), b[:n]...)
			if !g.start(func() { g.answerDatagram(query, from, to); <-g.queries }) {
				return nil
			}
		default: // lost: the program asks again
		}
	}
}

// sessions are the UDP conversations, by who talks to whom.
type sessions struct {
	g   *Gateway
	mu  sync.Mutex
	all map[pair]*session
}

type pair struct{ from, to netip.AddrPort }

func newSessions(g *Gateway) *sessions { return &sessions{g: g, all: map[pair]*session{}} }

// datagram passes on a datagram, which may begin a session.
func (t *sessions) datagram(b []byte, from, to netip.AddrPort) {
	key := pair{from, to}
	t.mu.Lock()
	s := t.all[key]
	if s != nil {
		t.mu.Unlock()
		s.send(t, b)
		return
	}
	s, r := t.begin(key, b)
	t.mu.Unlock()
	if r != nil {
		t.refuse(s, r)
	}
}

// begin makes a session if the rules allow one; the caller holds the lock.
func (t *sessions) begin(key pair, b []byte) (*session, *refusal) {
	g, a := t.g, key.to.Addr().Unmap().WithZone("")
	s := &session{pair: key, start: time.Now()}
	builtin := func(why string) *refusal { return denied(policy.Decision{Rule: "built-in", Reason: why}) }
	switch {
	case !own(key.from):
		s.target = a
		return s, builtin("it does not come from the sandbox's own address")
	case nowhere(a):
		s.target = a
		return s, builtin("no program can be reached at this address")
	case link.Synthetic4.Contains(a) || link.Synthetic6.Contains(a):
		if s.host, s.target = g.meant(a); s.host == "" && !s.target.IsValid() {
			s.target = a
			return s, builtin("this address belongs to no name; look the name up again")
		}
	default:
		s.target = a
	}
	if key.to.Port() == quicPort {
		return s, builtin("QUIC is refused, so that programs use TLS over TCP")
	}
	q := s.ask()
	if d := g.policy.Load().Decide(q); d.Verdict == policy.Deny {
		return s, g.unruled(q, d)
	}
	if len(t.all) >= g.limits.sessions {
		return s, builtin("too many UDP conversations are open")
	}
	s.ctx, s.cancel = context.WithCancel(g.ctx)
	s.claim.reserve = g.waiting
	s.wait(b)
	s.last.Store(time.Now().UnixNano())
	if !g.start(func() { t.serve(s) }) {
		return s, builtin("the sandbox's network is closed")
	}
	t.all[key] = s
	return s, nil
}

// serve dials for a session and carries what comes back until it ends.
func (t *sessions) serve(s *session) {
	defer s.cancel()
	r := t.open(s)
	if r == nil {
		t.replies(s)
	}
	t.mu.Lock()
	delete(t.all, s.pair)
	t.mu.Unlock()
	up := s.leave()
	if up != nil {
		_ = up.Close()
	}
	if r != nil {
		t.refuse(s, r)
	}
	// Only a session that has its socket can have sent something.
	if up != nil && (r == nil || r.what == "") {
		t.g.journal.add(s.event())
	}
}

// open takes the decision about a session to its end and connects its socket.
func (t *sessions) open(s *session) *refusal {
	g := t.g
	for granted := false; ; {
		set := g.policy.Load()
		q := s.ask()
		d := set.Decide(q)
		if d.Verdict == policy.Ask && !granted {
			if r := g.special(set, q, d); r != nil {
				return r
			}
			switch r, why := t.hold(s, q, d); r {
			case answerNo, answerGone:
				d.Verdict, d.Reason = policy.Deny, why
				return denied(d)
			case answerChanged:
				continue
			}
			granted = true
		}
		if d.Verdict == policy.Deny {
			return denied(d)
		}
		account := g.budgets.account(d.Budget, s.destination())
		if account.spent() {
			return overBudget(d, account)
		}
		up, addr, r := t.dial(s, q, d)
		if r != nil {
			return r
		}
		if g.policy.Load() != set {
			_ = up.Close()
			continue
		}
		if !s.adopt(up, addr, d, account, granted) {
			return &refusal{closed: s.why(), hangUp: true}
		}
		return t.flush(s, set)
	}
}

// flush sends what has waited for the socket of a session that was decided with a set.
// Either a change of the rules finds the socket, or the change is found here.
func (t *sessions) flush(s *session, set *policy.Set) *refusal {
	if now := t.g.policy.Load(); now != set {
		if why := s.review(t.g, now, time.Now()); why != "" {
			return denied(policy.Decision{Rule: s.decision.Rule, Reason: why})
		}
	}
	err := s.flush()
	if errors.Is(err, errBudget) {
		t.exceed(s, "upload")
	}
	if err != nil {
		return &refusal{closed: s.why(), hangUp: true}
	}
	return nil
}

func (t *sessions) dial(s *session, q policy.Query, d policy.Decision) (net.Conn, netip.Addr, *refusal) {
	ctx, cancel := context.WithTimeout(s.ctx, t.g.limits.dial)
	defer cancel()
	_, good, r := t.g.route(ctx, q, d)
	if r != nil {
		return nil, netip.Addr{}, r
	}
	// Connecting a UDP socket sends nothing, so the first that can be routed is it.
	var err error
	for _, a := range good {
		var up net.Conn
		if up, err = t.g.cfg.Dial(ctx, "udp", netip.AddrPortFrom(a, s.to.Port())); err == nil {
			return up, a, nil
		}
	}
	return nil, netip.Addr{}, unreachable(plainDial(err))
}

// exceed ends a session whose budget was used up while it ran.
func (t *sessions) exceed(s *session, direction string) {
	s.mu.Lock()
	rule := s.decision.Rule
	s.mu.Unlock()
	why := "the " + direction + " limit is used up"
	t.g.journal.add(audit.Event{
		Kind: audit.KindLimit, Host: s.host, Addr: s.target, Port: s.to.Port(), Protocol: "udp",
		Verdict: policy.Deny.String(), Rule: rule, Reason: why, Detail: direction,
	})
	s.end(why)
}

// hold waits for the user's answer.
func (t *sessions) hold(s *session, q policy.Query, d policy.Decision) (reply, string) {
	p, r, why := t.g.asks.put(q, d, true)
	if p == nil {
		return r, why
	}
	defer t.g.asks.release(p)
	select {
	case <-p.done:
		return p.reply, p.why
	case <-s.ctx.Done():
		return answerGone, "closed while the user was asked"
	}
}

// replies carries what comes back, in the name of the address that the program meant.
func (t *sessions) replies(s *session) {
	b := make([]byte, maxReply)
	for {
		n, err := s.up.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if errors.Is(err, syscall.ECONNREFUSED) {
				_ = t.g.link.RefuseDatagram(s.from, s.to)
				s.end("refused by the server")
			}
			s.end(reason("server", err))
			return
		}
		if n == len(b) {
			continue
		}
		s.mu.Lock()
		took := s.account.takeReceived(n)
		s.mu.Unlock()
		if took < n {
			t.exceed(s, "download")
			return
		}
		s.last.Store(time.Now().UnixNano())
		s.received.Add(int64(n))
		_ = t.g.link.WriteDatagram(b[:n], s.to, s.from)
	}
}

// list returns the sessions of now.
func (t *sessions) list() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*session, 0, len(t.all))
	for _, s := range t.all {
		all = append(all, s)
	}
	return all
}

// sweep ends sessions that nobody has used for a while.
func (t *sessions) sweep(now time.Time) {
	for _, s := range t.list() {
		if now.Sub(time.Unix(0, s.last.Load())) >= t.g.limits.udpIdle {
			s.end("idle")
		}
	}
}

// review ends sessions that the rules do not allow.
func (t *sessions) review(set *policy.Set, now time.Time) {
	for _, s := range t.list() {
		if why := s.review(t.g, set, now); why != "" {
			s.end(why)
		}
	}
}

func (t *sessions) close() {
	for _, s := range t.list() {
		s.end("the sandbox's network was closed")
	}
}

// refuse tells the program, the log and the user that a datagram goes nowhere.
func (t *sessions) refuse(s *session, r *refusal) {
	_ = t.g.link.RefuseDatagram(s.from, s.to)
	if r.what == "" {
		return
	}
	d := r.decision
	e := audit.Event{
		Time: s.start, Kind: audit.KindFlow, Host: s.host, Addr: s.target, Port: s.to.Port(), Protocol: "udp",
		Verdict: d.Verdict.String(), Rule: d.Rule, Reason: d.Reason, Close: r.closed,
	}
	if r.addr.IsValid() {
		e.Addr = r.addr
	}
	if r.what == "limit" {
		e.Kind = audit.KindLimit
	}
	t.g.journal.refused(e)
	n := Denial{
		Time: time.Now(), Host: s.destination(), Addr: e.Addr, Port: e.Port, Protocol: "udp",
		Rule: d.Rule, Reason: d.Reason, Count: 1,
	}
	switch {
	case r.what == "unreachable":
		t.g.failures.add(n)
		return
	case d.Verdict != policy.Deny || s.to.Port() == quicPort:
		return // QUIC falls back by itself: there is nothing to tell
	case r.what != "denied" || d.Rule == "built-in":
	case r.addr.IsValid():
		n.Allow = t.g.allow(r.addr.String(), e.Port, "udp")
	case d.Rule == defaultRule:
		n.Allow = t.g.allow(n.Host, e.Port, "udp")
	}
	t.g.denials.add(n)
}
