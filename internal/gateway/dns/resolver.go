// Package dns answers the DNS questions of a machine, without asking anybody.
//
// A program inside has to learn an address before it can connect. What it learns here
// is a made-up one: every allowed name has an IPv4 and an IPv6 address of its own in
// ranges that exist nowhere ([Table]). When the program then connects to it, the gateway
// knows which name it meant, decides on that name, and only then resolves it for real.
// So an allowed name costs no question outside, nothing inside ever sees a real address,
// and a name that is not allowed is answered at once and goes nowhere: the labels of
// a DNS question cannot carry anything out.
//
// # How a refusal is said
//
// A refused name does not exist (NXDOMAIN), with the reason in an extended DNS error.
// Time until getaddrinfo fails, and the questions it asks, measured against a server on
// loopback (one nameserver, no search list, both families asked):
//
//	            glibc 2.36          musl 1.2.3            Go 1.26
//	NXDOMAIN    0.5 ms, 2, NONAME   0.4 ms,  2, NONAME    0.4 ms, 2, "no such host"
//	REFUSED     0.8 ms, 4, AGAIN    5006 ms, 4, AGAIN     0.7 ms, 4, "server misbehaving"
//	SERVFAIL    0.6 ms, 4, AGAIN    5005 ms, 12, AGAIN    1.0 ms, 4, "server misbehaving"
//	no data     0.5 ms, 2, NODATA   0.5 ms,  2, NONAME    0.7 ms, 2, "no such host"
//
// Only NXDOMAIN and "no data" end the matter everywhere; after the others the resolvers
// ask again, ask the next server too, and tell the program that the failure is
// temporary, which makes package managers try again for a minute. musl waits for its
// whole timeout. None of them goes on to TCP. With a search list every domain of it is
// tried after NXDOMAIN (glibc after REFUSED as well): a machine's resolv.conf should have
// none, and one nameserver. Node and curl use getaddrinfo; c-ares asks once in each case.
// The answer carries no SOA, so that nobody remembers it: the policy may change.
//
// # The library
//
// dnsmessage of golang.org/x/net packs and unpacks. Linking it makes no difference to
// the start of a process (1.8 ms with and without); miekg/dns, with what it brings
// along, costs 0.35 ms at every start.
package dns

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/net/dns/dnsmessage"
)

// A Resolver answers questions. Its methods may be called from several goroutines at once.
type Resolver struct {
	Table *Table
	// Allow says whether a name may be known inside and, if not, why; why becomes the
	// text of the extended DNS error. The name is in lower case and has no trailing
	// dot, but it may have any other byte in it: it comes from a stranger.
	Allow func(name string) (ok bool, why string)
	// Lookup asks the real world for records other than addresses, of an allowed name:
	// NS, MX, TXT or SRV. Records of another type are dropped. An error is answered with SERVFAIL. Nil: there are no such records.
	Lookup func(ctx context.Context, name string, qtype dnsmessage.Type) ([]dnsmessage.ResourceBody, error)
}

// Bounds of an answer.
const (
	ttl           = 60 // seconds that a program may remember a synthetic address
	maxRecords    = 64
	maxReason     = 200
	lookupTimeout = 5 * time.Second
)

// canary is the name that browsers ask for before they resolve names over HTTPS by
// themselves; where it does not exist they use the resolver of the system.
const canary = "use-application-dns.net"

// A reply is what there is to say about a question.
type reply struct {
	rcode   dnsmessage.RCode
	records []dnsmessage.ResourceBody
	ede     uint16 // extended DNS error; 0 for none
	why     string // its text
}

// Codes of extended DNS errors (RFC 8914).
const (
	edeBlocked      = 15
	edeNotSupported = 21
	edeNetworkError = 23
)

// Answer returns the answer to a query, or nil if it is not a query and gets none.
// The answer has at most 64 KB, over UDP what the query says it can take.
func (r *Resolver) Answer(ctx context.Context, query []byte, udp bool) []byte {
	q, rcode, ok := parse(query)
	if !ok {
		return nil
	}
	var a reply
	switch {
	case rcode != dnsmessage.RCodeSuccess:
		a.rcode = rcode
	case q.question.Class != dnsmessage.ClassINET:
		a = reply{rcode: dnsmessage.RCodeRefused, ede: edeNotSupported, why: "only class IN"}
	default:
		a = r.reply(ctx, lower(q.question.Name), q.question.Type)
	}
	return q.pack(a, udp)
}

// reply decides what a question gets.
func (r *Resolver) reply(ctx context.Context, name string, t dnsmessage.Type) reply {
	switch {
	case name == "": // the root; some resolvers ask for it to see whether anybody answers
		return reply{}
	case name == link.HostName:
		return address(t, link.Host4, link.Host6)
	case name == link.AboutName:
		return address(t, link.About4, link.About6)
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return address(t, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	case strings.HasSuffix(name, "."+link.AboutName), name == canary:
		return reply{rcode: dnsmessage.RCodeNameError}
	case strings.HasSuffix(name, ".in-addr.arpa"), strings.HasSuffix(name, ".ip6.arpa"):
		return r.reverse(name, t)
	}
	if ok, why := r.Allow(name); !ok {
		return blocked(why)
	}
	if !hostname(name) {
		return blocked("not a host name")
	}
	switch t {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeALL:
		v4, v6 := r.Table.Addresses(name)
		return address(t, v4, v6)
	case dnsmessage.TypeNS, dnsmessage.TypeMX, dnsmessage.TypeTXT, dnsmessage.TypeSRV:
		return r.lookup(ctx, name, t)
	case dnsmessage.TypeAXFR, typeIXFR:
		return reply{rcode: dnsmessage.RCodeNotImplemented}
	}
	// Among the types without data are SVCB and HTTPS: they would carry the keys of
	// an encrypted ClientHello, whose server name the gateway could not read.
	return reply{}
}

// typeIXFR is a type that dnsmessage has no constant for.
const typeIXFR dnsmessage.Type = 251

func blocked(why string) reply {
	return reply{rcode: dnsmessage.RCodeNameError, ede: edeBlocked, why: why}
}

// address answers with an address of the family asked for. A question for everything
// gets the little that RFC 8482 suggests.
func address(t dnsmessage.Type, v4, v6 netip.Addr) reply {
	switch t {
	case dnsmessage.TypeA:
		return reply{records: []dnsmessage.ResourceBody{&dnsmessage.AResource{A: v4.As4()}}}
	case dnsmessage.TypeAAAA:
		return reply{records: []dnsmessage.ResourceBody{&dnsmessage.AAAAResource{AAAA: v6.As16()}}}
	case dnsmessage.TypeALL:
		return reply{records: []dnsmessage.ResourceBody{&dnsmessage.UnknownResource{
			Type: dnsmessage.TypeHINFO, Data: []byte("\x07RFC8482\x00")}}}
	}
	return reply{}
}

// lookup asks outside for records of an allowed name and keeps what can be passed on.
func (r *Resolver) lookup(ctx context.Context, name string, t dnsmessage.Type) reply {
	if r.Lookup == nil {
		return reply{}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	bodies, err := r.Lookup(ctx, name, t)
	if err != nil {
		// Not err's own text: it may tell about the network outside.
		return reply{rcode: dnsmessage.RCodeServerFailure, ede: edeNetworkError, why: "the lookup failed"}
	}
	var a reply
	for _, b := range bodies {
		one := dnsmessage.Message{Answers: []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(".")}, Body: b}}}
		if _, err := one.Pack(); err == nil && one.Answers[0].Header.Type == t && len(a.records) < maxRecords {
			a.records = append(a.records, b)
		}
	}
	return a
}

// lower returns a name in lower case, without the trailing dot.
func lower(n dnsmessage.Name) string {
	b := n.Data[:n.Length]
	for i, c := range b { // n is a copy
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return strings.TrimSuffix(string(b), ".")
}

// hostname says whether a name can be one of a host on the internet: letters, digits,
// hyphens and underscores, and a last label that does not make it an IPv4 address.
func hostname(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") != ""
	}
	return strings.Trim(last, "0123456789") != ""
}
