package policy

import (
	"fmt"
	"net/netip"
	"time"
)

// Verdict is the answer to a query. The zero value is Deny.
type Verdict uint8

const (
	Deny Verdict = iota
	Ask
	Allow
)

var verdictNames = [...]string{Deny: "deny", Ask: "ask", Allow: "allow"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// MarshalText writes "deny", "ask" or "allow".
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, name := range verdictNames {
		if name == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of deny, ask, allow", text)
}

// Protocol is what a flow speaks. TLS and HTTP are TCP whose first bytes said so; a
// rule for TCP matches them too.
type Protocol uint8

const (
	// Any is, in a rule, every protocol (but an allow rule must name UDP to mean it);
	// in a query, a TCP connection of which nothing else is known.
	Any Protocol = iota
	TCP
	UDP
	TLS
	HTTP // in plain text
)

var protocolNames = [...]string{Any: "", TCP: "tcp", UDP: "udp", TLS: "tls", HTTP: "http"}

func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

// MarshalText writes "", "tcp", "udp", "tls" or "http".
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (p *Protocol) UnmarshalText(text []byte) error {
	for i, name := range protocolNames {
		if name == string(text) {
			*p = Protocol(i)
			return nil
		}
	}
	if meant, ok := otherNames[string(text)]; ok {
		return fmt.Errorf("%q is written %s here: rules go by what the first bytes show", text, meant)
	}
	return fmt.Errorf("%q is not one of tcp, udp, tls, http", text)
}

// otherNames are what people write for a protocol that goes by another name here.
var otherNames = map[string]string{"https": "tls", "ssl": "tls", "wss": "tls", "ws": "http", "ssh": "tcp", "git": "tcp", "quic": "udp", "dns": "udp"}

// Query is a destination somebody wants to reach.
type Query struct {
	Host     string     // canonical name, or "" for a bare address
	Addr     netip.Addr // the address the program meant, when Host is ""
	Port     uint16
	Protocol Protocol
	Method   string    // for HTTP, and TLS that is looked into
	Path     string    // the same, as the client sent it; a query string is ignored
	Now      time.Time // for rules that expire; zero ignores expiry
}

// Decision is an answer, and why.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"`             // name or text of the rule that decided, "default" otherwise
	Origin  string  `json:"origin,omitempty"` // where it is written
	Reason  string  `json:"reason"`           // one sentence for people and models
	Budget  *Budget `json:"budget,omitempty"` // nil: no bound

	// Of the rule that decided: the protocol it names, and whether it looks at methods
	// or paths, so that it says nothing about another request.
	Protocol Protocol `json:"protocol,omitempty"`
	Request  bool     `json:"request,omitempty"`
	// Exact: a rule that does not deny names this very host, and not a pattern or a range.
	Exact bool `json:"exact,omitempty"`
}

// Budget bounds how many bytes may pass, per destination host. Zero is no bound.
type Budget struct {
	Rule        string `json:"rule"` // name or text of the rule: the same each time it is compiled
	MaxUpload   int64  `json:"max_upload,omitempty"`
	MaxDownload int64  `json:"max_download,omitempty"`
}

// Key names the counters of one destination under this budget.
func (b *Budget) Key(host string) string { return b.Rule + " " + host }

// Possible is what a TCP connection may turn out to be.
type Possible struct {
	Raw  Decision // neither TLS nor HTTP, or the server speaks first
	TLS  Decision
	HTTP Decision // some request may pass; each is decided by itself
}

// Best is the most permissive of the three: if it is Deny the connection can be refused
// before a byte was read.
func (p Possible) Best() Decision {
	best := p.Raw
	for _, d := range []Decision{p.TLS, p.HTTP} {
		if d.Verdict > best.Verdict {
			best = d
		}
	}
	return best
}
