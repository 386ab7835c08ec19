package gateway

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// isLookedInto says whether the rules have to see what is said in TLS.
func (f *flow) isLookedInto() bool { return f.g.policy.Load().Inspects(f.ask(policy.TLS)) }

// An innerFlow is a flow whose TLS is looked into.
type innerFlow struct{ *flow }

// lookInto ends the program's TLS here and has each of its requests decided. Nothing is dialled
// before one of them is allowed.
func (f innerFlow) lookInto(hello sniff.Hello) *refusal {
	refuse := func(why string) *refusal { return denied(policy.Decision{Rule: builtin, Reason: why}) }
	switch {
	case f.g.cfg.Authority == nil:
		return refuse("the rules look at requests in TLS, and nothing here can look into it; a sandbox that is started anew can, a jail cannot")
	case f.opened != nil:
		return refuse("the rules look at requests in TLS, which began after a pause")
	case f.host == "" && hello.SNI != "":
		return refuse("where the rules look at requests in TLS with an address, it must not name a server")
	}
	conn := &unread{f.client.Conn, slices.Clone(f.client.ahead)}
	f.client.forget()
	s := intercept.Server{Authority: f.g.cfg.Authority, Roots: f.g.roots}
	err := s.Serve(f.ctx, conn, intercept.Target{Host: f.name(), Port: f.port, Dial: f.dialInside, Permit: f.permitInside})
	switch {
	case errors.Is(err, intercept.ErrUntrusted):
		return unreachable(errors.New(err.Error() + `; a rule with tls = "pass" leaves its TLS alone`))
	case err != nil:
		return &refusal{closed: "no TLS with the program: " + err.Error(), hangUp: true}
	}
	f.note("closed by the program")
	return nil
}

// unread is a connection of which some bytes were read already.
type unread struct {
	link.Conn
	ahead []byte
}

func (u *unread) Read(b []byte) (int, error) {
	if len(u.ahead) == 0 {
		return u.Conn.Read(b)
	}
	n := copy(b, u.ahead)
	u.ahead = u.ahead[n:]
	return n, nil
}

// permitInside decides about a request. Until done is called, a change of the rules is held
// against it as well.
func (f innerFlow) permitInside(r *http.Request) (done func(), no *intercept.Refusal) {
	q := f.ask(policy.TLS)
	q.Method = r.Method
	q.Path, _, _ = strings.Cut(r.RequestURI, "?")
	c := &clearance{g: f.g, destination: f.destination}
	f.mu.Lock()
	if f.inside == nil {
		f.inside = map[*clearance]struct{}{}
	}
	f.inside[c] = struct{}{}
	f.mu.Unlock()
	c.mu.Lock()
	c.dialled = f.address() // what is dialled from here on, dialInside tells it
	c.mu.Unlock()
	done = func() {
		f.mu.Lock()
		delete(f.inside, c)
		f.mu.Unlock()
	}
	if no := f.decideInside(c, q, r); no != nil {
		done()
		no.method, no.path = q.Method, q.Path
		return nil, f.tell(no)
	}
	f.follow(c)
	f.mu.Lock()
	if f.requests++; f.requests == 1 {
		f.method, f.path = clip(q.Method), clip(q.Path)
	}
	f.mu.Unlock()
	return done, nil
}

func (f innerFlow) decideInside(c *clearance, q policy.Query, r *http.Request) *refusal {
	if len(q.Path) > maxPath {
		return malformed(&sniff.Error{Status: 414, Msg: "the path is too long"})
	}
	set := f.g.policy.Load()
	if !set.Inspects(q) {
		return denied(policy.Decision{Rule: builtin, Reason: rulesChanged + "TLS is to be passed on"})
	}
	if err := checkBody(sniff.Request{Method: r.Method, ContentLength: r.ContentLength}, set.Requests(q)); err != nil {
		return malformed(err)
	}
	return c.permit(q, policy.Query{}, func() (<-chan struct{}, func()) { return r.Context().Done(), func() {} })
}

// tell notes the refusal of a request, and says it in the words of package intercept.
func (f innerFlow) tell(r *refusal) *intercept.Refusal {
	r.protocol = policy.TLS
	d := f.denial(r)
	switch {
	case r.what == "unreachable":
		f.g.failures.add(d)
	case r.what != "":
		f.mu.Lock()
		f.denied = true
		f.mu.Unlock()
		f.g.denials.add(d)
		f.g.cfg.Audit(r.event(d))
	}
	return &intercept.Refusal{Status: r.status, Rule: d.Rule, Reason: d.Reason, Allow: d.Allow}
}

// follow makes the decision about a request the one about the flow.
func (c *clearance) follow(o *clearance) {
	o.mu.Lock()
	set, q, d, account, granted := o.set, o.query, o.decision, o.account, maps.Clone(o.granted)
	o.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decided, c.set, c.query, c.decision, c.account, c.granted = true, set, q, d, account, granted
}

// dialInside connects to the server, whose bytes are counted as those of any other.
func (f innerFlow) dialInside(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(f.ctx, cancel)()
	defer cancel()
	q, d := f.current()
	up, addr, r := f.g.connect(ctx, q, d)
	if r == nil {
		if r = f.adopt(addr); r == nil {
			r = f.adoptInside(addr)
		}
		if r == nil {
			return &counted{up, f.flow}, nil
		}
		reset(up)
	}
	return nil, f.tell(r)
}

// adoptInside has all requests that are under way, any of which may use a new connection, vet its
// address.
func (f innerFlow) adoptInside(a netip.Addr) *refusal {
	for _, c := range f.underWay() {
		if r := c.adopt(a); r != nil {
			return r
		}
	}
	return nil
}

func (f innerFlow) underWay() []*clearance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.inside))
}

// charge takes bytes from the budgets of all requests that are under way, as nobody knows whose they
// are, and returns how many of them may pass.
func (f innerFlow) charge(n int, take func(*account, int) int) int {
	all := append(f.underWay(), f.clearance)
	seen := map[*counter]bool{}
	for _, c := range all {
		a := c.charged()
		if a == nil || seen[a.counter] {
			continue
		}
		seen[a.counter] = true
		if may := take(a, n); may < n {
			n = may
			f.follow(c) // it is the one to be told of
		}
	}
	return n
}

// counted is a connection to a server whose bytes are charged to the budget.
type counted struct {
	net.Conn
	f *flow
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	allowed := innerFlow{c.f}.charge(n, (*account).takeReceived)
	c.f.received.Add(int64(allowed))
	if allowed < n {
		c.f.exceed("download")
		return allowed, errBudget
	}
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	allowed := innerFlow{c.f}.charge(len(b), (*account).takeSent)
	n, err := c.Conn.Write(b[:allowed])
	c.f.sent.Add(int64(n))
	if err == nil && allowed < len(b) {
		c.f.exceed("upload")
		err = errBudget
	}
	return n, err
}

// review says why a flow must end by a set of rules, "" if it may go on.
func (f *flow) review(set *policy.Set, now time.Time) string {
	why := f.clearance.review(set, now)
	for _, c := range (innerFlow{f}).underWay() {
		if why == "" {
			why = c.review(set, now)
		}
	}
	return why
}
