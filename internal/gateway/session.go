package gateway

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/policy"
)

// A session is one conversation. It has a socket of its own outside, connected to a
// vetted address, so nobody else's datagrams come in.
type session struct {
	pair
	host   string
	target netip.Addr
	start  time.Time
	ctx    context.Context
	cancel context.CancelFunc

	last           atomic.Int64 // when a datagram passed, in nanoseconds of the clock
	sent, received atomic.Int64

	mu       sync.Mutex
	waiting  [][]byte // until they are flushed
	claim    claim    // for waiting
	flushed  bool     // what comes now need not wait
	over     bool     // nobody serves it any more
	up       net.Conn
	addr     netip.Addr
	decision policy.Decision
	account  *account
	granted  bool
	closed   string
}

func (s *session) ask() policy.Query {
	return policy.Query{Host: s.host, Addr: s.target, Port: s.to.Port(), Protocol: policy.UDP, Now: time.Now()}
}

func (s *session) destination() string {
	if s.host != "" {
		return s.host
	}
	return s.target.String()
}

// adopt gives a session its socket. From here on a change of the rules finds it, so
// nothing may be sent before. It says no when the session has ended meanwhile.
func (s *session) adopt(up net.Conn, addr netip.Addr, d policy.Decision, a *account, granted bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != "" {
		_ = up.Close()
		return false
	}
	s.up, s.addr, s.decision, s.account, s.granted = up, addr, d, a, granted
	return true
}

// flush sends what has waited, unless the session has ended meanwhile.
func (s *session) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != "" {
		return net.ErrClosed
	}
	waiting := s.waiting
	s.waiting, s.flushed = nil, true
	defer s.claim.set(0)
	for _, b := range waiting {
		if err := s.write(b); err != nil {
			return err
		}
	}
	return nil
}

// send passes a datagram on, or keeps it until those before it are flushed.
func (s *session) send(t *sessions, b []byte) {
	s.last.Store(time.Now().UnixNano())
	s.mu.Lock()
	var err error
	switch {
	case s.over || s.closed != "": // lost
	case s.flushed:
		err = s.write(b)
	default:
		s.wait(b)
	}
	s.mu.Unlock()
	if err != nil {
		t.exceed(s, "upload")
	}
}

// wait keeps a datagram until it can be sent. What is too much is lost. The caller
// holds the lock, or is the only one who knows the session.
func (s *session) wait(b []byte) {
	size := s.claim.held + len(b)
	if len(s.waiting) < queued && size <= queuedBytes && s.claim.set(size) {
		s.waiting = append(s.waiting, append([]byte(nil), b...))
	}
}

// leave ends the waiting of a session that is no longer served, and returns its socket.
func (s *session) leave() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.waiting = true, nil
	s.claim.set(0)
	return s.up
}

// write sends a whole datagram if the budget has it; the caller holds the lock.
func (s *session) write(b []byte) error {
	if s.account.takeSent(len(b)) < len(b) {
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

// review says why a session must end, "" if it may go on.
func (s *session) review(g *Gateway, set *policy.Set, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up == nil {
		return "" // it is decided when it gets its socket
	}
	q := s.ask()
	q.Now = now
	d := set.Decide(q)
	if d.Verdict == policy.Deny || d.Verdict == policy.Ask && !s.granted {
		return "the rules have changed: " + d.Reason
	}
	if v := g.vet(set, q, s.addr, d); v.Verdict != policy.Allow {
		return "the rules have changed: " + v.Reason
	}
	s.account = g.budgets.account(d.Budget, s.destination())
	return ""
}

// event is a session's line in the log.
func (s *session) event() audit.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return audit.Event{
		Time: s.start, Kind: audit.KindFlow, Host: s.host, Addr: s.addr, Port: s.to.Port(), Protocol: "udp",
		Verdict: policy.Allow.String(), Rule: s.decision.Rule, Reason: s.decision.Reason,
		Sent: s.sent.Load(), Received: s.received.Load(), Duration: time.Since(s.start), Close: s.closed,
	}
}
