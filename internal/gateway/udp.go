package gateway

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/policy"
)

const (
	maxDatagram = 1 << 16
	// maxReply is the longest datagram that is taken from outside. Longer ones are
	// lost, as they are on most networks.
	maxReply = 16 << 10
	// Of a session that waits for its decision and its socket, so much is kept.
	maxQueued      = 16
	maxQueuedBytes = 4 << 10
	quicPort       = 443
)

// datagrams takes what programs send by UDP until the link is closed.
func (g *Gateway) datagrams() error {
	b := make([]byte, maxDatagram)
	for {
		n, from, to, err := g.link.ReadDatagram(b)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
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
			g.start(func() { g.answerDatagram(query, from, to); <-g.queries })
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

// A session is one conversation. It has a socket of its own outside, connected to a
// vetted address, so nobody else's datagrams come in.
type session struct {
	*clearance
	pair
	start  time.Time
	ctx    context.Context
	cancel context.CancelFunc

	last           atomic.Int64 // when a datagram passed, in nanoseconds of the clock
	sent, received atomic.Int64

	mu      sync.Mutex
	waiting [][]byte // until there is a socket
	size    int      // of waiting
	up      net.Conn
	closed  string // why it ended
}

// datagram passes on a datagram, which may begin a session.
func (t *sessions) datagram(b []byte, from, to netip.AddrPort) {
	key := pair{from, to}
	t.mu.Lock()
	s := t.all[key]
	var r *refusal
	if s == nil {
		s, r = t.begin(key)
	}
	t.mu.Unlock()
	switch {
	case r != nil:
		t.refuse(s, r)
	case s.send(b) != nil:
		t.exceed(s, "upload")
	}
}

// begin makes a session if the rules allow one; the caller holds the lock.
func (t *sessions) begin(key pair) (*session, *refusal) {
	g := t.g
	to, why := g.locate(key.from, key.to)
	s := &session{clearance: &clearance{g: g, destination: to}, pair: key, start: time.Now()}
	switch {
	case why != "":
	case to.port == quicPort:
		why = "QUIC is refused, so that programs use TLS over TCP"
	case len(t.all) >= g.limits.sessions:
		why = "too many UDP conversations are open"
	}
	if why != "" {
		return s, denied(policy.Decision{Rule: builtin, Reason: why})
	}
	q := s.ask(policy.UDP)
	if d := g.policy.Load().Decide(q); d.Verdict == policy.Deny {
		return s, g.unruled(q, d)
	}
	s.ctx, s.cancel = context.WithCancel(g.ctx)
	s.last.Store(time.Now().UnixNano())
	if !g.start(func() { t.serve(s) }) {
		return s, &refusal{hangUp: true}
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
	s.end("")
	if r != nil {
		t.refuse(s, r)
	}
	if s.up != nil {
		e := s.event()
		e.Time, e.Sent, e.Received = s.start, s.sent.Load(), s.received.Load()
		e.Duration, e.Close = time.Since(s.start), s.why()
		t.g.cfg.Audit(e)
	}
}

// open takes the decision about a session to its end and connects its socket.
func (t *sessions) open(s *session) *refusal {
	wait := func() (<-chan struct{}, func()) { return s.ctx.Done(), func() {} }
	if r := s.permit(s.ask(policy.UDP), policy.Query{}, wait); r != nil {
		return r
	}
	up, addr, r := t.dial(s)
	if r != nil {
		return r
	}
	if r = s.adopt(addr); r == nil {
		s.mu.Lock()
		if s.closed == "" {
			s.up = up
		} else {
			r = &refusal{closed: s.closed, hangUp: true}
		}
		waiting := s.waiting
		s.waiting = nil
		for _, b := range waiting {
			if r == nil && s.write(b) != nil {
				s.mu.Unlock()
				t.exceed(s, "upload")
				return &refusal{hangUp: true}
			}
		}
		s.mu.Unlock()
	}
	if r != nil {
		_ = up.Close()
	}
	return r
}

func (t *sessions) dial(s *session) (net.Conn, netip.Addr, *refusal) {
	ctx, cancel := context.WithTimeout(s.ctx, t.g.limits.dial)
	defer cancel()
	q, d := s.current()
	_, good, r := t.g.route(ctx, q, d)
	if r != nil {
		return nil, netip.Addr{}, r
	}
	// Connecting a UDP socket sends nothing, so the first that can be routed is it.
	var err error
	for _, a := range good {
		var up net.Conn
		if up, err = t.g.cfg.Dial(ctx, "udp", netip.AddrPortFrom(a, s.port)); err == nil {
			return up, a, nil
		}
	}
	return nil, netip.Addr{}, unreachable(plainDial(err))
}

// send passes a datagram on, or keeps it until there is a socket. What is too much is lost.
func (s *session) send(b []byte) error {
	s.last.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != "":
	case s.up != nil:
		return s.write(b)
	case len(s.waiting) < maxQueued && s.size+len(b) <= maxQueuedBytes:
		s.waiting = append(s.waiting, append([]byte(nil), b...))
		s.size += len(b)
	}
	return nil
}

// write sends a whole datagram if the budget has it; the caller holds the lock.
func (s *session) write(b []byte) error {
	if s.takeSent(len(b)) < len(b) {
		return errBudget
	}
	if n, err := s.up.Write(b); err == nil {
		s.sent.Add(int64(n))
	}
	return nil // a datagram that cannot be sent is lost
}

// end breaks a session off; whoever serves it logs it.
func (s *session) end(why string) {
	s.mu.Lock()
	if s.closed == "" {
		s.closed = why
	}
	up := s.up
	s.mu.Unlock()
	s.cancel()
	if up != nil {
		_ = up.Close()
	}
}

// why says why a session has ended.
func (s *session) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// exceed ends a session whose budget was used up while it ran.
func (t *sessions) exceed(s *session, direction string) {
	e := s.event()
	e.Kind, e.Verdict, e.Detail = audit.KindLimit, policy.Deny.String(), direction
	e.Reason = "the " + direction + " limit is used up"
	t.g.cfg.Audit(e)
	s.end(e.Reason)
}

// replies carries what comes back, in the name of the address that the program meant.
func (t *sessions) replies(s *session) {
	b := make([]byte, maxReply)
	for {
		n, err := s.up.Read(b)
		if err != nil {
			if errors.Is(err, syscall.ECONNREFUSED) {
				_ = t.g.link.RefuseDatagram(s.from, s.to)
			}
			s.end(reason("server", err))
			return
		}
		if n == len(b) {
			continue
		}
		if s.takeReceived(n) < n {
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
	return slices.Collect(maps.Values(t.all))
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
		if why := s.clearance.review(set, now); why != "" {
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
	r.protocol = policy.UDP
	d := s.denial(r)
	e := r.event(d)
	e.Time = s.start
	t.g.cfg.Audit(e)
	switch {
	case r.what == "unreachable":
		t.g.failures.add(d)
	case s.port != quicPort: // QUIC falls back by itself: there is nothing to tell
		t.g.denials.add(d)
	}
}
