package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/policy"
)

// A refusal is why a flow does not go on, and what the program is told about it.
type refusal struct {
	what     string // in one or two words, for programs: "denied"
	decision policy.Decision
	status   int        // for HTTP
	alert    uint8      // for TLS
	host     string     // if it is about another name than the flow's
	addr     netip.Addr // if it is about an address behind the flow's name
	method   string
	path     string
	protocol policy.Protocol
	closed   string // why it ended, if nothing was denied
	hangUp   bool   // there is nobody to tell
}

// alertInternal is TLS's "it is not your fault".
const alertInternal = 80

func denied(d policy.Decision) *refusal {
	return &refusal{what: "denied", decision: d, status: 403, alert: sniff.AlertAccessDenied}
}

// unruled refuses a query that was denied. To allow an address that no rule is about, one
// should know what kind of address it is. Which are the host's own is not for programs to find out.
func (g *Gateway) unruled(q policy.Query, d policy.Decision) *refusal {
	if q.Host == "" && d.Rule == defaultRule {
		if v := g.policy.Load().Address(q, q.Addr, nil); v.Verdict == policy.Deny {
			return deniedAddress(v, q.Addr)
		}
	}
	return denied(d)
}

// unreachable says that a destination is allowed and cannot be had. TLS has no word for that,
// and any that it has would make programs doubt the server or its certificate; after a reset
// they say that the network failed, and many try again.
func unreachable(err error) *refusal {
	return &refusal{
		what: "unreachable", status: 502,
		decision: policy.Decision{Verdict: policy.Allow, Reason: err.Error()},
		closed:   "could not connect: " + err.Error(),
	}
}

// answer is the document that a program gets with an HTTP status.
type answer struct {
	Error  string `json:"error"`
	Host   string `json:"host"`
	Port   uint16 `json:"port"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
	Allow  string `json:"allow,omitempty"` // the command that would allow it, for the user outside
	Help   string `json:"help,omitempty"`
}

// maxOverheard is how much of a head is read only to say in the log what was refused.
const maxOverheard = 8 << 10

// overhear finds out how to tell a program that it is refused, and what it wanted.
func (f *flow) overhear(possible policy.Possible) (sniff.Kind, *refusal) {
	f.client.most = maxOverheard
	kind := f.language()
	switch kind {
	case sniff.TLS:
		return kind, f.g.unruled(f.ask(policy.TLS), possible.TLS)
	case sniff.HTTP:
		r := f.g.unruled(f.ask(policy.HTTP), possible.HTTP)
		if req, err := f.client.request(f.g.limits.web); err == nil {
			q := f.ask(policy.HTTP)
			q.Method, q.Path = req.Method, req.Path
			if d := f.g.policy.Load().Decide(q); d.Verdict == policy.Deny {
				r = f.g.unruled(q, d)
			}
			r.method, r.path = req.Method, req.Path
		}
		return kind, r
	}
	return kind, f.g.unruled(f.ask(policy.TCP), possible.Raw)
}

// language is what a program speaks that is refused. One that is silent waits for the server: no
// answer could be made that it understands.
func (f *flow) language() sniff.Kind {
	wait := f.g.limits.sniff
	if p := f.port; p == 80 || p == 443 || p >= 8000 && p <= 8999 {
		wait = f.g.limits.web
	}
	kind, err := f.client.first(wait, wait)
	if err != nil {
		return sniff.Unknown
	}
	return kind
}

// refuse ends a flow with an answer in its own protocol.
func (f *flow) refuse(kind sniff.Kind, r *refusal) {
	if r.hangUp || f.isOver() {
		f.record(r)
		f.end(r.closed)
		return
	}
	f.stop()
	if kind == sniff.NeedMore {
		kind = f.language()
	}
	r.protocol = protocolOf(kind)
	f.record(r)
	switch {
	case kind == sniff.TLS && r.alert != 0:
		f.client.say(sniff.Alert(r.alert), f.g.limits.linger)
	case kind == sniff.HTTP && r.status != 0:
		f.client.say(sniff.Answer(r.status, f.document(r)), f.g.limits.linger)
	default:
		f.client.Reset()
	}
}

func protocolOf(kind sniff.Kind) policy.Protocol {
	switch kind {
	case sniff.TLS:
		return policy.TLS
	case sniff.HTTP:
		return policy.HTTP
	}
	return policy.TCP
}

// document is what a program is told about a refusal.
func (f *flow) document(r *refusal) answer {
	a := answer{Error: r.what, Host: f.name(), Port: f.port, Rule: r.decision.Rule, Reason: r.decision.Reason}
	if r.what == "denied" {
		d := f.denial(r)
		a.Host, a.Allow = d.Host, d.Allow
		a.Help = "http://coffer.internal/"
	}
	return a
}

// record notes a refusal for the log and for whom it may concern.
func (f *flow) record(r *refusal) {
	deny := r.what != "" && r.decision.Verdict == policy.Deny
	f.note(cmp.Or(r.closed, r.what))
	d := f.denial(r)
	if r.what == "unreachable" {
		f.g.failures.add(d)
	}
	if !deny {
		return
	}
	f.mu.Lock()
	f.denied = true
	f.mu.Unlock()
	f.g.denials.add(d)
	e := r.event(d)
	e.Time, e.Received = f.start, f.received.Load() // of a server that spoke first
	f.g.cfg.Audit(e)
}

// event is the line of a refusal in the log.
func (r *refusal) event(d Denial) audit.Event {
	e := audit.Event{
		Kind: audit.KindFlow, Host: d.Host, Addr: d.Addr, Port: d.Port, Protocol: d.Protocol,
		Verdict: r.decision.Verdict.String(), Rule: d.Rule, Reason: d.Reason, Method: d.Method, Path: d.Path, Close: r.closed,
	}
	if r.what == "limit" {
		e.Kind = audit.KindLimit
	}
	return e
}

// denial is a refusal as users see it.
func (c *clearance) denial(r *refusal) Denial {
	d := Denial{
		Time: time.Now(), Host: cmp.Or(r.host, c.name()), Addr: c.addr, Port: c.port, Protocol: r.protocol.String(),
		Method: clip(r.method), Path: clip(r.path), Rule: r.decision.Rule, Reason: r.decision.Reason, Count: 1,
	}
	to := d.Host
	if r.addr.IsValid() {
		d.Addr, to = r.addr, r.addr.String()
	}
	// A deny rule is not overruled by an allow, so there is no command to show.
	byDefault := d.Rule == defaultRule || d.Rule == unresolvedRule || r.addr.IsValid()
	if r.what == "denied" && d.Rule != builtin && byDefault {
		protocol := ""
		if r.protocol == policy.UDP {
			protocol = d.Protocol
		}
		d.Allow = c.g.allow(to, c.port, protocol)
	}
	return d
}

const builtin = "built-in" // the rule of refusals that no rule could lift

const (
	// defaultRule is how a decision says that no rule matched.
	defaultRule = "default"
	// unresolvedRule is how connect says that a wildcard is not enough.
	unresolvedRule = "unresolved"
)

// allow is what a user types to allow a destination. Without a port it is all of them.
func (g *Gateway) allow(host string, port uint16, protocol string) string {
	if port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	if g.cfg.Allow != nil {
		return g.cfg.Allow(host, protocol)
	}
	c := "coffer policy allow " + host
	if protocol != "" {
		c += " --protocol " + protocol
	}
	return c
}

// clip bounds a word of a program for logs and lists.
func clip(s string) string {
	const most = 256
	if len(s) > most {
		return s[:most] + "…"
	}
	return strings.Clone(s) // it may be a part of something long
}

// reason says why a read or a write ended, for the log.
func reason(side string, err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return "closed by the " + side
	}
	return fmt.Sprintf("broken off by the %s: %v", side, plain(err))
}

// malformed makes a refusal of what a parser or a read says.
func malformed(err error) *refusal {
	var bad *sniff.Error
	switch {
	case errors.As(err, &bad):
		return &refusal{
			what: "bad request", status: bad.Status, alert: bad.Alert,
			decision: policy.Decision{Rule: builtin, Reason: bad.Msg},
		}
	case errors.Is(err, io.EOF):
		return &refusal{closed: "the program ended in the middle of a head", hangUp: true}
	case isTimeout(err):
		return &refusal{
			what: "bad request", status: 408, alert: sniff.AlertDecodeError,
			decision: policy.Decision{Rule: builtin, Reason: "the head did not come in time"},
		}
	case errors.Is(err, errTooLong):
		return &refusal{
			what: "bad request", status: 431, alert: sniff.AlertDecodeError,
			decision: policy.Decision{Rule: builtin, Reason: "the head is too long"},
		}
	case errors.Is(err, errFull):
		return &refusal{
			what: "limit", status: 503, alert: alertInternal,
			decision: policy.Decision{Rule: builtin, Reason: errFull.Error()},
		}
	}
	return &refusal{closed: "reset by the program", hangUp: true}
}
