package gateway

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// servedMax is what a server may say before the program says its first byte and may
// still begin with HTTP. More is no HTTP server, and may be moved faster.
const servedMax = 64 << 10

// open begins to dial what q asks for, and to receive.
func (f *flow) open(q policy.Query) {
	f.opened, f.down = make(chan struct{}), make(chan struct{})
	f.turn = make(chan *exchange, 1)
	f.vetted, f.vettedAs = f.g.policy.Load(), q.Protocol
	go f.receive(q)
}

// ensureOpen waits for the server to be dialled.
func (f *flow) ensureOpen() *refusal {
	if f.opened == nil {
		f.mu.Lock()
		q := f.query
		f.mu.Unlock()
		f.open(q)
	}
	<-f.opened
	if f.refused != nil || !f.dialled().IsValid() {
		return f.refused
	}
	// If it was dialled before the protocol was known, the address was vetted for another one.
	f.mu.Lock()
	q, d := f.query, f.decision
	f.mu.Unlock()
	set := f.g.policy.Load()
	if q.Protocol == policy.TCP && f.vettedAs == policy.TCP && f.vetted == set {
		return nil
	}
	if v := f.g.vet(set, q, f.dialled(), d); v.Verdict != policy.Allow {
		return deniedAddress(v, f.dialled())
	}
	return nil
}

// failed says why the server could not be dialled, if that is known and so.
func (f *flow) failed() *refusal {
	select {
	case <-f.opened: // nil, and so never ready, if nothing was dialled
		return f.refused
	default:
		return nil
	}
}

// receive dials, and carries what the server sends.
func (f *flow) receive(q policy.Query) {
	defer func() {
		close(f.down)
		if f.mode.Load() == speaking && !f.isStopped() {
			// No answer can come any more, so no request need be waited for. This
			// comes after the close: whoever has set another time limit sees that.
			_ = f.client.SetReadDeadline(time.Now())
		}
	}()
	up, addr, r := f.dial(q)
	if r == nil && !f.adopt(up, addr) {
		reset(up)
		r = &refusal{closed: "closed while connecting", hangUp: true}
	}
	f.refused = r
	close(f.opened)
	if r != nil {
		_ = f.client.SetReadDeadline(time.Now()) // the program may keep silent, waiting for the server
		return
	}
	// What the program has said goes first: most servers say nothing before that.
	runtime.Gosched()
	f.downloaded(f.download())
}

func (f *flow) dial(q policy.Query) (net.Conn, netip.Addr, *refusal) {
	if f.local.IsValid() {
		up, err := f.g.dialHost(f.ctx, f.local.Port())
		if err != nil {
			return nil, netip.Addr{}, unreachable(err)
		}
		return up, netip.Addr{}, nil
	}
	f.mu.Lock()
	d := f.decision
	f.mu.Unlock()
	return f.g.connect(f.ctx, q, d)
}

// adopt makes a connection the flow's. It says no when the flow is over meanwhile.
func (f *flow) adopt(up net.Conn, addr netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.up, f.addr = up, addr
	return true
}

// download carries what the server sends until its end.
func (f *flow) download() error {
	if f.mode.Load() == speaking {
		return f.responses(nil)
	}
	l := f.downward()
	l.turn = func() bool {
		switch f.mode.Load() {
		case speaking:
			return true
		case relaying:
			l.turn = nil
		case undecided:
			if f.received.Load() > servedMax && f.mode.CompareAndSwap(undecided, served) {
				l.turn = nil
			}
		}
		return false
	}
	err := l.run(-1)
	if errors.Is(err, errTurn) {
		rest := l.rest
		l.turn, l.rest = nil, nil
		return f.responses(rest)
	}
	return err
}

// downloaded tells the program how the server's side has ended.
func (f *flow) downloaded(err error) {
	var side *sideError
	switch {
	case f.isStopped():
	case err == nil:
		f.halved()
		_ = f.client.CloseWrite()
	case errors.Is(err, errBudget):
		f.exceed("download")
	case errors.As(err, &side) && side.write:
		f.end(reason("program", side.error))
	default:
		f.end(reason("server", err))
	}
}

// runHost serves a flow to a port of the host's loopback interface, which the config
// has named. Nothing is read of it: what listens there may speak anything.
func (f *flow) runHost(in link.Flow) {
	d, _ := Internal(f.ask(policy.TCP), f.g.cfg.HostPorts)
	if d.Verdict != policy.Allow {
		f.turnAway(in, d.Reason)
		return
	}
	conn, err := in.Accept()
	if err != nil {
		return
	}
	f.client = &inside{Conn: conn, claim: claim{reserve: f.g.ahead}}
	f.local = netip.AddrPortFrom(netip.IPv6Unspecified(), hostPort(f.g.cfg.HostPorts, f.port))
	if !f.register() {
		conn.Reset()
		return
	}
	defer f.leave()
	q := f.ask(policy.TCP)
	f.settle(f.g.policy.Load(), q, policy.Query{}, d, nil)
	if r := f.relay(nil); r != nil {
		f.record(r)
		f.client.Reset()
	}
}
