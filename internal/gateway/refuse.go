package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
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

func deniedAddress(d policy.Decision, a netip.Addr) *refusal {
	if d.Verdict == policy.Ask {
		d.Reason = fmt.Sprintf("the name leads to %v, and a yes to a name is not a yes to that address", a)
	}
	d.Verdict = policy.Deny
	r := denied(d)
	r.addr = a
	return r
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

func overBudget(d policy.Decision, a *account) *refusal {
	d.Verdict, d.Reason = policy.Deny, a.say()
	r := denied(d)
	r.what = "limit"
	return r
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

// language is what a program speaks that is refused. One that is silent, or stops in the middle of a line, waits for the server:
// no answer could be made that it understands, and it is not to wait for that either.
func (f *flow) language() sniff.Kind {
	wait := f.g.limits.glance
	switch {
	case usual(f.port, webPorts):
		wait = f.g.limits.web
	case usual(f.port, greetingPorts) && len(f.client.ahead) == 0:
		return sniff.Unknown
	}
	kind, err := f.client.first(wait, wait, 0)
	if err != nil {
		return sniff.Unknown
	}
	return kind
}

// webPorts are those where programs speak TLS or HTTP, some after a while: what a Java
// program has to load first is loaded once it is connected.
var webPorts = [][2]uint16{{80, 80}, {443, 443}, {8000, 8999}}

// greetingPorts are those where the server speaks first: FTP, SSH, Telnet, mail, news, rsync,
// MySQL, VNC.
var greetingPorts = [][2]uint16{{21, 23}, {25, 25}, {110, 110}, {119, 119}, {143, 143}, {587, 587}, {873, 873}, {2222, 2222}, {3306, 3306}, {5900, 5999}}

func usual(port uint16, ranges [][2]uint16) bool {
	return slices.ContainsFunc(ranges, func(r [2]uint16) bool { return r[0] <= port && port <= r[1] })
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
	a := answer{Error: r.what, Host: f.destination(), Port: f.port, Rule: r.decision.Rule, Reason: r.decision.Reason}
	if r.what == "denied" {
		d := f.denial(r)
		a.Host, a.Allow = d.Host, d.Allow
		a.Help = "http://coffer.internal/"
	}
	return a
}

// say writes last words, gives the program a moment to read them, and closes. Without
// that moment the reset that follows unread bytes could overtake the words.
func (c *inside) say(words []byte, linger time.Duration) {
	_ = c.SetDeadline(time.Now().Add(linger))
	if _, err := c.Write(words); err != nil {
		c.Reset()
		return
	}
	c.part(linger)
}

// part ends a connection to which everything was written. What the program still sends is
// of no use to anybody.
func (c *inside) part(linger time.Duration) {
	c.forget()
	_ = c.SetDeadline(time.Now().Add(linger))
	if c.CloseWrite() == nil {
		for b := make([]byte, smallBuffer); ; {
			if _, err := c.Read(b); err != nil {
				break
			}
		}
	}
	_ = c.Close()
}

// record notes a refusal for the log and for whom it may concern.
func (f *flow) record(r *refusal) {
	deny := r.what != "" && r.decision.Verdict == policy.Deny
	f.mu.Lock()
	if f.closed == "" {
		f.closed = r.closed
	}
	if f.closed == "" {
		f.closed = r.what
	}
	f.logged = deny
	f.mu.Unlock()
	d := f.denial(r)
	if r.what == "unreachable" {
		f.g.failures.add(d)
	}
	if !deny {
		return
	}
	f.g.denials.add(d)
	e := audit.Event{
		Time: f.start, Kind: audit.KindFlow, Host: d.Host, Addr: d.Addr, Port: f.port, Protocol: d.Protocol,
		Verdict: policy.Deny.String(), Rule: d.Rule, Reason: d.Reason, Method: d.Method, Path: d.Path,
		Received: f.received.Load(), // of a server that spoke first
	}
	if r.what == "limit" {
		e.Kind = audit.KindLimit
	}
	f.g.journal.refused(e)
}

// denial is a refusal as users see it.
func (f *flow) denial(r *refusal) Denial {
	d := Denial{
		Time: time.Now(), Host: f.destination(), Addr: f.target, Port: f.port, Protocol: r.protocol.String(),
		Method: clip(r.method), Path: clip(r.path), Rule: r.decision.Rule, Reason: r.decision.Reason, Count: 1,
	}
	if r.host != "" {
		d.Host = r.host
	}
	if r.addr.IsValid() {
		d.Addr = r.addr
	}
	if r.what != "denied" || r.decision.Rule == "built-in" {
		return d
	}
	// A deny rule is not overruled by an allow, so there is no command to show.
	switch to := f.host; {
	case r.addr.IsValid():
		d.Allow = f.g.allow(r.addr.String(), f.port, "")
	case r.decision.Rule != defaultRule && r.decision.Rule != unresolvedRule:
	case r.host != "":
		d.Allow = f.g.allow(r.host, f.port, "")
	case to != "":
		d.Allow = f.g.allow(to, f.port, "")
	default:
		d.Allow = f.g.allow(f.target.String(), f.port, "")
	}
	return d
}

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
