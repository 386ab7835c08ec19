package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// about serves http://coffer.internal/, where programs inside learn what the rules are,
// what was refused, and how to ask.
type about struct {
	g      *Gateway
	server *http.Server
	conns  chan net.Conn
	places chan struct{} // one for each connection
	closed chan struct{}
	once   sync.Once
}

func newAbout(g *Gateway) *about {
	a := &about{g: g, conns: make(chan net.Conn), places: make(chan struct{}, g.limits.about), closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.index)
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, r *http.Request) { writeOK(w, a.policy()) })
	mux.HandleFunc("GET /denials", func(w http.ResponseWriter, r *http.Request) { writeOK(w, g.Denials()) })
	mux.HandleFunc("GET /unreachable", func(w http.ResponseWriter, r *http.Request) { writeOK(w, g.failures.list()) })
	mux.HandleFunc("POST /request", a.request)
	outer := http.NewServeMux()
	outer.Handle("/", http.MaxBytesHandler(mux, 16<<10))
	if g.cfg.Serve != nil {
		outer.Handle("/git/", g.cfg.Serve)
		outer.Handle("/include/", g.cfg.Serve)
	}
	a.server = &http.Server{
		Handler: outer, MaxHeaderBytes: 16 << 10,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // what programs do wrong is no news for the host
	}
	return a
}

// serve runs until close.
func (a *about) serve() { _ = a.server.Serve(a) }

// take hands a flow to the server, and waits until its connection is closed.
func (a *about) take(in link.Flow) {
	if in.Destination().Port() != 80 {
		in.Refuse()
		return
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	default:
		in.Refuse()
		return
	}
	c, err := in.Accept()
	if err != nil {
		return
	}
	w := &noticed{Conn: c, closed: make(chan struct{})}
	select {
	case a.conns <- w:
		select {
		case <-w.closed:
		case <-a.closed:
			c.Reset()
			<-w.closed
		}
	case <-a.closed:
		c.Reset()
	}
}

// noticed is a connection of which one learns that it was closed.
type noticed struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (n *noticed) Close() error {
	defer n.once.Do(func() { close(n.closed) })
	return n.Conn.Close()
}

// Accept, Close and Addr make it a net.Listener.
func (a *about) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a *about) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}

func (a *about) Addr() net.Addr { return &net.TCPAddr{IP: link.About4.AsSlice(), Port: 80} }

func (a *about) close() {
	_ = a.Close()
	_ = a.server.Close()
}

// howToAsk is the same in every answer.
const howToAsk = "curl -X POST 'http://" + link.AboutName + "/request?host=HOST&port=PORT'"

// index tells everything, to people or to programs.
func (a *about) index(w http.ResponseWriter, r *http.Request) {
	denials, failures := a.g.Denials(), a.g.failures.list()
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeOK(w, map[string]any{
			"sandbox": map[string]string{"name": a.g.cfg.About.Name, "id": a.g.cfg.About.ID}, "policy": a.policy(), "denials": denials, "unreachable": failures, "ask": howToAsk,
		})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p := a.policy()
	fmt.Fprintf(w, "This is the network of the sandbox %s.\n\n", strings.TrimSpace(a.g.cfg.About.Name+" "+a.g.cfg.About.ID))
	fmt.Fprintf(w, "Where no rule matches: %s. Rules, the strongest first:\n", p.Default)
	for _, rule := range p.Rules {
		fmt.Fprintf(w, "  %s\n", rule.Text)
	}
	fmt.Fprint(w, "\nRefused lately:\n")
	for _, d := range denials {
		fmt.Fprintf(w, "  %s %s, %s: %s\n", d.Time.UTC().Format(time.TimeOnly), d.place(), times(d.Count), d.Reason)
		if d.Allow != "" {
			fmt.Fprintf(w, "    the user can allow it, outside: %s\n", d.Allow)
		}
	}
	if len(failures) > 0 {
		fmt.Fprint(w, "\nAllowed, and could not be reached lately:\n")
	}
	for _, d := range failures {
		fmt.Fprintf(w, "  %s %s, %s: %s\n", d.Time.UTC().Format(time.TimeOnly), d.place(), times(d.Count), d.Reason)
	}
	fmt.Fprintf(w, "\nTo ask the user for access:\n  %s\n", howToAsk)
	fmt.Fprintf(w, "As JSON: /policy, /denials, /unreachable, or this page with Accept: application/json\n")
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// place is where a denial was for, with the port if one is known.
func (d Denial) place() string {
	if d.Port == 0 {
		return d.Host
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
}

// shownPolicy is the policy as programs inside see it. Where its rules are
// written is the host's business.
type shownPolicy struct {
	Default policy.Verdict `json:"default"`
	Rules   []shownRule    `json:"rules"`
}

type shownRule struct {
	Verdict policy.Verdict `json:"verdict"`
	Text    string         `json:"rule"`
	Name    string         `json:"name,omitempty"`
	Expires time.Time      `json:"expires,omitzero"`
}

func (a *about) policy() shownPolicy {
	set := a.g.policy.Load()
	p := shownPolicy{Default: set.Default(), Rules: []shownRule{}}
	for _, r := range set.Rules() {
		p.Rules = append(p.Rules, shownRule{r.Verdict, r.Text, r.Name, r.Expires})
	}
	return p
}

// asked is the answer to a request for access.
type asked struct {
	Status string `json:"status"` // "allowed", "asked" or "denied"
	Host   string `json:"host"`
	Port   uint16 `json:"port"`
	ID     int    `json:"id,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
	Allow  string `json:"allow,omitempty"`
}

// request asks the user for access, unless a rule denies it already.
func (a *about) request(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.FormValue("port"), 10, 16)
	if r.FormValue("port") == "" {
		port, err = 443, nil
	}
	if err != nil || port == 0 {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "bad request", "reason": "port must be a number from 1 to 65535"})
		return
	}
	q, err := policy.NewQuery(r.FormValue("host"), uint16(port))
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "bad request", "reason": "host: " + err.Error()})
		return
	}
	q.Now = time.Now()
	protocol := ""
	if r.FormValue("protocol") == "udp" {
		q.Protocol, protocol = policy.UDP, "udp"
	}
	set := a.g.policy.Load()
	d, own := Internal(q, a.g.cfg.HostPorts)
	if !own {
		d = decideBest(set, &q)
	}
	out := asked{Host: q.Host, Port: q.Port, Rule: d.Rule, Reason: d.Reason}
	if out.Host == "" {
		out.Host = q.Addr.String()
	}
	if d.Verdict == policy.Allow {
		out.Status = "allowed"
		writeOK(w, out)
		return
	}
	out.Status = "denied"
	if d.Rule == defaultRule {
		out.Allow = a.g.allow(out.Host, q.Port, protocol)
	}
	if r := a.g.special(set, q, d); r != nil {
		out.Rule, out.Reason = r.decision.Rule, r.decision.Reason
	} else if d.Verdict == policy.Ask || mayFile(d) {
		a.file(&out, q, d)
	}
	status := http.StatusForbidden
	if out.Status == "asked" {
		status = http.StatusAccepted
	}
	writeJSON(w, status, out)
}

// file puts a question to the user, for which no connection waits yet.
func (a *about) file(out *asked, q policy.Query, d policy.Decision) {
	p, _, why := a.g.asks.put(q, d, false)
	if p == nil {
		out.Reason = why
		return
	}
	out.Status, out.ID, out.Allow = "asked", p.ID, ""
	out.Reason = "the user is asked; connect again, the connection waits for the answer"
	if p.Filed {
		out.Reason = "the user is asked; make this request again to learn the answer, and connect when it says allowed"
	}
}

// decideBest answers for the protocol that gets furthest, and puts it into the query.
func decideBest(set *policy.Set, q *policy.Query) policy.Decision {
	if q.Protocol == policy.UDP {
		return set.Decide(*q)
	}
	p := set.Connect(*q)
	q.Protocol = policy.TCP
	best := p.Raw
	if p.TLS.Verdict > best.Verdict {
		q.Protocol, best = policy.TLS, p.TLS
	}
	if p.HTTP.Verdict > best.Verdict {
		q.Protocol, best = policy.HTTP, p.HTTP
	}
	return best
}

func writeOK(w http.ResponseWriter, body any) { writeJSON(w, http.StatusOK, body) }

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body)
}
