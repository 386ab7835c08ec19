package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// reference decides as the package comment says it: every clause is looked at, and the
// best is taken.
func reference(s *Set, q Query) (Verdict, string) {
	if q.Protocol == Any {
		q.Protocol = TCP
	}
	best, bestRank, bestWeight := -1, rankAllow+1, -1
	for i := range s.clauses {
		c := &s.clauses[i]
		weight := referenceWeight(c, q)
		if weight < 0 || !referenceConditions(c, q) {
			continue
		}
		if c.rank < bestRank || c.rank == bestRank && weight > bestWeight {
			best, bestRank, bestWeight = i, c.rank, weight
		}
	}
	verdict, by := s.def.Verdict, "default"
	if best >= 0 {
		verdict, by = s.clauses[best].decision.Verdict, s.clauses[best].decision.Rule
	}
	nameless := q.Host == "" && (best < 0 || s.clauses[best].target.kind == everything)
	if nameless && slices.ContainsFunc(s.clauses, func(c clause) bool {
		return c.rank == rankDeny && (c.target.kind == exactly || c.target.kind == below)
	}) {
		if verdict == Allow {
			verdict = Deny
		}
	}
	return verdict, by
}

// referenceWeight is how much a target says about the destination, -1 if it is not
// about it.
func referenceWeight(c *clause, q Query) int {
	t := c.target
	switch {
	case t.kind == everything:
		return 1000
	case t.kind == inside && q.Host == "":
		if t.prefix.Contains(q.Addr) {
			return 2000 + t.prefix.Bits()
		}
		if v4, ok := embedded(q.Addr); ok && c.rank == rankDeny && t.prefix.Contains(v4) {
			return t.prefix.Bits()
		}
	case t.kind == exactly && q.Host == t.host:
		return 3000
	case t.kind == below && q.Host != "" && strings.HasSuffix(q.Host, "."+t.host):
		return 2000 + len(t.host)
	}
	return -1
}

func referenceConditions(c *clause, q Query) bool {
	if c.protocol == Any && c.aboutRequests() && q.Protocol != TLS && q.Protocol != HTTP {
		return false
	}
	inPorts := c.target.ports == nil
	for _, r := range c.target.ports {
		inPorts = inPorts || r.lo <= q.Port && q.Port <= r.hi
	}
	var proto bool
	switch c.protocol {
	case Any:
		proto = q.Protocol != UDP || c.rank == rankDeny
	case TCP:
		proto = q.Protocol != UDP
	default:
		proto = q.Protocol == c.protocol
	}
	if !inPorts || !proto || !c.expires.IsZero() && !q.Now.IsZero() && !c.expires.After(q.Now) {
		return false
	}
	strict := c.rank == rankAllow || c.rank == rankGrant
	if len(c.methods) > 0 && !slices.Contains(c.methods, q.Method) && (strict || q.Method != "" && !slices.Contains(c.methods, strings.ToUpper(q.Method))) {
		return false
	}
	if len(c.paths) == 0 {
		return true
	}
	a, b, ok := readings(q.Path)
	if !ok {
		return !strict
	}
	matches := func(path string) bool {
		return slices.ContainsFunc(c.paths, func(p pathPattern) bool { return p.match(path) })
	}
	if strict {
		return matches(a) && matches(b)
	}
	return matches(a) || matches(b)
}

// world makes policies and queries that have to do with each other.
type world struct{ *rand.Rand }

func pick[T any](w world, list ...T) T { return list[w.IntN(len(list))] }

func (w world) host() string {
	labels := make([]string, 1+w.IntN(4))
	for i := range labels {
		labels[i] = pick(w, "a", "b", "c")
	}
	return strings.Join(append(labels, pick(w, "test", "example.com")), ".")
}

func (w world) addr() netip.Addr {
	switch w.IntN(4) {
	case 0:
		return netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: byte(w.IntN(2)), 3: 0xdb, 15: byte(w.IntN(4))})
	case 1:
		return netip.MustParseAddr(fmt.Sprintf("64:ff9b::10.%d.0.%d", w.IntN(3), w.IntN(4)))
	}
	return netip.AddrFrom4([4]byte{10, byte(w.IntN(3)), byte(w.IntN(2)), byte(w.IntN(4))})
}

func (w world) ports() string {
	switch w.IntN(4) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(":%d", 1+w.IntN(6))
	case 2:
		return fmt.Sprintf(":%d,%d", 1+w.IntN(6), 1+w.IntN(6))
	}
	lo := 1 + w.IntN(6)
	return fmt.Sprintf(":%d-%d", lo, lo+w.IntN(4))
}

func (w world) target() string {
	switch w.IntN(8) {
	case 0:
		return "*" + w.ports()
	case 1, 2:
		return w.host() + w.ports()
	case 3, 4:
		return "*." + w.host() + w.ports()
	}
	a := w.addr()
	p, _ := a.Prefix(a.BitLen() - pick(w, 0, 1, 2, 8, 16, 24, 32))
	if a.Is6() {
		return "[" + p.String() + "]" + w.ports()
	}
	return p.String() + w.ports()
}

func (w world) source(n int) Source {
	s := Source{Default: pick(w, "", "deny", "ask", "allow"), Grants: w.IntN(3) == 0}
	for range n {
		r := RuleSource{Protocol: pick(w, "", "", "tcp", "udp", "tls", "http", "http")}
		list := pick(w, &r.Allow, &r.Allow, &r.Deny, &r.Ask)
		for range 1 + w.IntN(2) {
			*list = append(*list, w.target())
		}
		if r.Protocol != "tcp" && r.Protocol != "udp" {
			r.Methods = pick(w, nil, []string{"GET"}, []string{"POST", "PUT"})
			r.Paths = pick(w, nil, []string{"/a/**"}, []string{"/*"}, []string{"/**/b", "/"})
		}
		if w.IntN(5) == 0 {
			r.Expires = time.Unix(int64(1000+w.IntN(3)), 0)
		}
		if w.IntN(4) == 0 && len(r.Allow)+len(r.Ask) > 0 {
			r.MaxUpload = pick(w, "1k", "2k")
		}
		s.Rules = append(s.Rules, r)
	}
	return s
}

func (w world) query() Query {
	q := Query{Port: uint16(1 + w.IntN(10)), Protocol: Protocol(w.IntN(int(HTTP) + 1))}
	if w.IntN(2) == 0 {
		q.Host = w.host()
	} else {
		q.Addr = w.addr()
	}
	if w.IntN(3) > 0 {
		q.Now = time.Unix(int64(999+w.IntN(4)), 0)
	}
	if q.Protocol == HTTP {
		q.Method = pick(w, "GET", "POST", "get", "")
		q.Path = pick(w, "/", "/a", "/a/b", "/x/../a/b", "/a%2fb", "/x%5c", "/c/d/b", "")
	}
	return q
}

// Decide finds what the reference finds.
func TestDecideEqualsReference(t *testing.T) {
	w := world{rand.New(rand.NewPCG(1, 2))}
	seen := map[Verdict]int{}
	for round := range 300 {
		set := compile(t, w.source(w.IntN(60)), w.source(w.IntN(60)))
		for range 200 {
			q := w.query()
			verdict, rule := reference(set, q)
			d := set.Decide(q)
			if d.Verdict != verdict || d.Rule != rule {
				t.Fatalf("round %d: %+v: %+v, want %v by %q", round, q, d, verdict, rule)
			}
			checkExplained(t, set, q, d)
			seen[d.Verdict]++
		}
	}
	if len(seen) != 3 || min(seen[Deny], seen[Ask], seen[Allow]) < 500 {
		t.Errorf("verdicts: %v", seen)
	}
}

// Name and Connect promise no less than what some flow gets, and no more either, unless
// rules take some requests away: whether they leave any cannot be known.
func TestNameAndConnectEqualBestDecision(t *testing.T) {
	w := world{rand.New(rand.NewPCG(3, 4))}
	seen := map[Verdict]int{}
	paths := []string{"/", "/a", "/a/b", "/x", "/c/d/b", "/q/q/q"}
	for range 400 {
		set := compile(t, w.source(w.IntN(12)), w.source(w.IntN(12)))
		vague := slices.ContainsFunc(set.clauses, func(c clause) bool { return c.cautious() && c.aboutRequests() })
		equal := func(promised, best Verdict) bool { return promised == best || vague && promised > best }
		for range 10 {
			q := w.query()
			q.Method, q.Path = "", ""
			best := Deny
			for port := uint16(1); port <= 12; port++ {
				q.Port = port
				possible := set.Connect(q)
				http, tls := Deny, Deny
				for _, q.Method = range []string{"GET", "POST", "HEAD"} {
					for _, q.Path = range paths {
						q.Protocol = HTTP
						http = max(http, set.Decide(q).Verdict)
						q.Protocol = TLS
						tls = max(tls, set.Decide(q).Verdict)
					}
				}
				q.Method, q.Path = "", ""
				q.Protocol = TCP
				raw := set.Decide(q).Verdict
				if possible.Raw.Verdict != raw || !equal(possible.TLS.Verdict, tls) || !equal(possible.HTTP.Verdict, http) {
					t.Fatalf("%+v: %+v, want %v %v %v", q, possible, raw, tls, http)
				}
				q.Protocol = UDP
				best = max(best, raw, tls, http, set.Decide(q).Verdict)
			}
			if d := set.Name(q); (q.Host != "" || !set.denies) && !equal(d.Verdict, best) {
				t.Fatalf("%+v: %+v, want %v", q, d, best)
			}
			if !vague {
				seen[best]++
			}
		}
	}
	if min(seen[Deny], seen[Ask], seen[Allow]) < 50 {
		t.Errorf("verdicts: %v", seen)
	}
}

// FuzzCompile: whatever the source, no panic, and a deny rule always holds.
func FuzzCompile(f *testing.F) {
	f.Add("allow", "npm", "*.example.com:443", "a.example.com", "http", "GET", "/a/**", "10MB", "a.example.com", "/a/b", uint16(443))
	f.Add("", "", "10.0.0.0/8", "10.0.0.1:1-9", "", "", "", "", "0xa.1", "", uint16(5))
	f.Add("ask", "@go", "*", "*", "udp", "", "", "", "::ffff:1.2.3.4", "", uint16(0))
	f.Fuzz(func(t *testing.T, def, group, allow, deny, protocol, method, path, size, host, request string, port uint16) {
		denial := RuleSource{Deny: []string{deny}}
		src := Source{Default: def, Rules: []RuleSource{{Name: method, Allow: []string{allow, deny}, Ask: []string{allow}, Protocol: protocol}, denial}}
		if group != "" {
			src.Groups = []string{group}
		}
		if method != "" {
			src.Rules[0].Methods = []string{method}
		}
		if path != "" {
			src.Rules[0].Paths = []string{path}
		}
		src.Rules[0].MaxUpload = size
		set, err := Compile(src, Source{Grants: true, Rules: []RuleSource{{Allow: []string{allow}}}})
		if err != nil {
			if len(err.(Problems)) == 0 || err.Error() == "" {
				t.Errorf("an error without problems: %v", err)
			}
			return
		}
		only, err := Compile(Source{Default: "allow"}, rules(denial))
		if err != nil {
			t.Fatal(err)
		}
		for p := Any; p <= HTTP; p++ {
			q := Query{Host: host, Port: port, Protocol: p, Method: method, Path: request}
			alone, d := only.Decide(q), set.Decide(q)
			if alone.Verdict == Deny && d.Verdict != Deny {
				t.Errorf("%+v is denied, but beside other rules %+v", q, d)
			}
			checkExplained(t, set, q, d)
			if set.Name(q).Verdict < d.Verdict && port != 0 {
				t.Errorf("%+v: %+v, but its name is %+v", q, d, set.Name(q))
			}
			set.Connect(q)
			if c, err := Canonical(host); err == nil {
				checkSpellings(t, set, q, c, d)
			} else if d.Verdict != Deny {
				t.Errorf("%+v has no canonical form: %+v", q, d)
			}
		}
	})
}

// checkSpellings: however the host is written, the decision is the same.
func checkSpellings(t *testing.T, set *Set, q Query, canonical string, want Decision) {
	t.Helper()
	for _, host := range []string{canonical, strings.ToUpper(canonical), canonical + "."} {
		if strings.Contains(host, ":") {
			host = strings.TrimSuffix(host, ".")
		}
		q.Host = host
		if d := set.Decide(q); d.Verdict != want.Verdict || d.Rule != want.Rule {
			t.Errorf("%q: %+v, want %+v", host, d, want)
		}
	}
}
