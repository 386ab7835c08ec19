package gateway

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/policy"
)

// talk learns what the program speaks, decides, and carries. If it returns a refusal,
// the program is to be told so, and sniff.NeedMore says that it is not known yet how.
func (f *flow) talk() (sniff.Kind, *refusal) {
	possible := f.g.policy.Load().Connect(f.ask(policy.Any))
	if possible.Best().Verdict == policy.Deny {
		return f.overhear(possible)
	}
	wait, head := f.g.limits.first, f.g.limits.head
	if possible.Raw.Verdict != policy.Deny {
		head = f.g.limits.sniff // it may wait for an answer to half a line
	}
	raw := possible.Raw.Verdict
	if raw == policy.Allow && f.isLookedInto() { // no connection is made before a request is there
		raw = policy.Ask
	}
	switch raw {
	case policy.Allow: // the server may speak first
		if r := f.connectRaw(); r != nil {
			return sniff.NeedMore, r
		}
		wait = 0
	case policy.Ask:
		wait = f.g.limits.sniff
	}
	kind, err := f.client.first(wait, head)
	if isTimeout(err) && len(f.client.ahead) == 0 && raw == policy.Ask {
		// It waits for the server to speak: the question is about raw TCP.
		if r := f.connectRaw(); r != nil {
			return sniff.NeedMore, r
		}
		kind, err = f.client.first(0, head)
	}
	if isTimeout(err) && len(f.client.ahead) > 0 && possible.Raw.Verdict != policy.Deny && f.failed() == nil {
		return sniff.NeedMore, f.relayLine()
	}
	if err == nil && len(f.client.ahead) == 0 && f.opened == nil {
		err = io.EOF // it hung up, and nobody was to be reached without a word from it
	}
	if err != nil {
		return sniff.NeedMore, f.silent(err)
	}
	r := f.speak(kind)
	if r != nil && (r.decision.Verdict != policy.Deny || r.what == "bad request") {
		if failed := f.failed(); failed != nil {
			r = failed // that the server cannot be reached says more
		}
	}
	return kind, r
}

// connectRaw permits raw TCP and begins to dial.
func (f *flow) connectRaw() *refusal {
	if r := f.permit(f.ask(policy.TCP), policy.Query{}, f.client.watch); r != nil {
		return r
	}
	f.connect()
	return nil
}

// speak goes on in the protocol that the first bytes have shown.
func (f *flow) speak(kind sniff.Kind) *refusal {
	switch kind {
	case sniff.TLS:
		return f.speakTLS()
	case sniff.HTTP:
		return httpFlow{f}.speakHTTP()
	case sniff.H2Preface, sniff.Proxied:
		d := f.g.policy.Load().Decide(f.ask(policy.TCP))
		if d.Verdict != policy.Deny && d.Protocol != policy.TCP {
			d.Verdict = policy.Deny
			d.Reason = kind.String() + " cannot be checked; only a rule with protocol tcp allows it"
			return denied(d)
		}
	}
	if !f.settled(policy.TCP) {
		if r := f.permit(f.ask(policy.TCP), policy.Query{}, f.client.watch); r != nil {
			return r
		}
	}
	return f.relay()
}

// relayLine passes on half a line, because the program waits for an answer to it. If it becomes
// HTTP after all, the server has not seen the whole line, and never will.
func (f *flow) relayLine() *refusal {
	if r := f.permit(f.ask(policy.TCP), policy.Query{}, f.client.watch); r != nil {
		return r
	}
	if r := f.ready(); r != nil {
		return r
	}
	var seen []byte
	for len(seen) < maxLine {
		seen = append(seen, f.client.ahead...)
		switch sniff.Classify(seen) {
		case sniff.NeedMore:
		case sniff.Unknown, sniff.SSH:
			return f.relay()
		default:
			return &refusal{what: "bad request", decision: policy.Decision{Rule: builtin, Reason: "it became TLS or HTTP after a pause"}}
		}
		err := f.send(len(f.client.ahead))
		if err == nil {
			if err = f.client.more(); err == io.EOF {
				f.finish(nil)
				return nil
			} else if err != nil {
				err = &sideError{false, err}
			}
		}
		if err != nil {
			f.finish(err)
			return nil
		}
	}
	return &refusal{closed: "the program sent a long line in pieces", hangUp: true}
}

// maxLine bounds a line that comes in pieces.
const maxLine = 8 << 10

// silent says what to do about a program whose first bytes did not come.
func (f *flow) silent(err error) *refusal {
	if r := f.failed(); r != nil {
		return r
	}
	switch {
	case errors.Is(err, errFull):
		return malformed(err)
	case errors.Is(err, io.EOF):
		return &refusal{closed: "the program sent nothing", hangUp: true}
	case isTimeout(err):
		return &refusal{closed: "the program did not say in time what it speaks", hangUp: true}
	}
	return &refusal{closed: "reset by the program", hangUp: true}
}

// connect begins to dial what was permitted, and to carry what the server sends.
func (f *flow) connect() {
	f.opened, f.down = make(chan struct{}), make(chan struct{})
	go f.receive()
}

// ready waits for the server to be dialled.
func (f *flow) ready() *refusal {
	if f.opened == nil {
		f.connect()
	}
	<-f.opened
	return f.failure
}

// failed says why the server could not be dialled, if that is known and so.
func (f *flow) failed() *refusal {
	select {
	case <-f.opened: // nil, and so never ready, if nothing was dialled
		return f.failure
	default:
		return nil
	}
}

// receive dials, and carries what the server sends.
func (f *flow) receive() {
	f.failure = f.dial()
	close(f.opened)
	if f.failure == nil {
		f.downloaded(f.downward().run(-1))
	}
	close(f.down)
	if f.failure != nil || !f.isStopped() && f.offer.Load() != nil {
		// The program may be waited for, and nothing can come of it any more.
		_ = f.client.SetReadDeadline(time.Now())
	}
}

// dial connects to the server.
func (f *flow) dial() *refusal {
	var up net.Conn
	var addr netip.Addr
	var r *refusal
	if f.local != 0 {
		var err error
		if up, err = f.g.dialHost(f.ctx, f.local); err != nil {
			r = unreachable(err)
		}
	} else {
		q, d := f.current()
		up, addr, r = f.g.connect(f.ctx, q, d)
	}
	if r != nil {
		return r
	}
	f.mu.Lock()
	f.up = up
	stopped := f.stopped
	f.mu.Unlock()
	if stopped {
		r = &refusal{closed: "closed while connecting", hangUp: true}
	} else {
		r = f.adopt(addr)
	}
	if r != nil {
		reset(up)
	}
	return r
}

// downloaded tells the program how the server's side has ended.
func (f *flow) downloaded(err error) {
	var side *sideError
	switch {
	case f.isStopped():
	case err == nil && f.offer.Load() != nil: // HTTP: an answer of ours may have to follow
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

// speakTLS checks the ClientHello, decides and relays. The bytes after the hello are watched
// for a second one.
func (f *flow) speakTLS() *refusal {
	hello, err := f.client.hello(f.g.limits.head)
	if err != nil {
		return malformed(err)
	}
	foreign, r := f.checkName(hello)
	if r != nil {
		return r
	}
	if f.isLookedInto() {
		return innerFlow{f}.lookInto(hello)
	}
	if r := f.permit(f.ask(policy.TLS), foreign, f.client.watch); r != nil {
		return r
	}
	if r := f.ready(); r != nil {
		return r
	}
	w := sniff.NewWatch(hello)
	for err = f.send(hello.Len); err == nil; {
		if len(f.client.ahead) > 0 {
			through, bad := w.Next(f.client.ahead)
			if bad != nil {
				return malformed(bad)
			}
			if through {
				return f.relay()
			}
			if err = f.send(len(f.client.ahead)); err != nil {
				break
			}
		}
		if err = f.client.more(); err != nil && err != io.EOF {
			err = &sideError{false, err}
		}
	}
	if err == io.EOF {
		err = nil
	}
	f.finish(err)
	return nil
}

// checkName says what is wrong with the server name of a ClientHello, nil for nothing.
// A name for a bare address is still to be decided.
func (f *flow) checkName(hello sniff.Hello) (foreign policy.Query, r *refusal) {
	wrong := func(why string) (policy.Query, *refusal) {
		r := denied(policy.Decision{Rule: builtin, Reason: why})
		r.alert = sniff.AlertUnrecognizedName
		return policy.Query{}, r
	}
	if hello.ECH {
		return wrong("the ClientHello has an encrypted part (ECH), which may name another server; " +
			"turn ECH off in the program, for Chromium with --disable-features=EncryptedClientHello")
	}
	if f.host == "" {
		return policy.Query{Host: hello.SNI, Port: f.port, Protocol: policy.TLS}, nil
	}
	switch name, err := policy.Canonical(hello.SNI); {
	case hello.SNI == "":
		return wrong("the ClientHello names no server, and the connection is for " + f.host)
	case err != nil || name != f.host:
		return wrong("the ClientHello names another server than " + f.host)
	}
	return policy.Query{}, nil
}
