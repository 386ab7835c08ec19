package policy

import (
	"strings"
	"testing"
	"time"
)

func compile(t testing.TB, layers ...Source) *Set {
	t.Helper()
	set, err := Compile(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func rules(r ...RuleSource) Source { return Source{Rules: r} }

// ask a set "host:port protocol method path"; the last three may be left out.
func ask(t testing.TB, text string) Query {
	t.Helper()
	f := append(strings.Fields(text), "", "", "")
	target, err := ParseTarget(f[0])
	if err != nil {
		t.Fatal(err)
	}
	q := Query{Host: target.host, Port: 443, Method: f[2], Path: f[3]}
	if target.kind == inside {
		q.Addr = target.prefix.Addr()
	}
	if target.ports != nil {
		q.Port = target.ports[0].lo
	}
	if err := q.Protocol.UnmarshalText([]byte(f[1])); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestDecide(t *testing.T) {
	off := false
	for _, c := range []struct {
		name             string
		layers           []Source
		allow, ask, deny []string // queries
	}{
		{name: "nothing at all", layers: nil,
			deny: []string{"example.com", "1.1.1.1", "[2606::1]:443", "example.com:53 udp"}},
		{name: "exact", layers: []Source{rules(RuleSource{Allow: []string{"Example.com"}})},
			allow: []string{"example.com", "example.com:22 tcp", "example.com tls", "example.com:80 http GET /"},
			deny:  []string{"www.example.com", "xexample.com", "com", "example.com.evil.test", "1.1.1.1", "example.com udp"}},
		{name: "below, never the apex", layers: []Source{rules(RuleSource{Allow: []string{"*.example.com"}})},
			allow: []string{"www.example.com", "a.b.c.example.com"},
			deny:  []string{"example.com", "xexample.com", "example.com.evil.test", "www.example.org"}},
		{name: "star", layers: []Source{rules(RuleSource{Allow: []string{"*:443"}})},
			allow: []string{"example.com", "localhost", "1.1.1.1", "[2606::1]:443"},
			deny:  []string{"example.com:80", "1.1.1.1:80", "example.com udp"}},
		{name: "ports", layers: []Source{rules(RuleSource{Allow: []string{"example.com:80,443,8000-8010"}})},
			allow: []string{"example.com:80", "example.com:443", "example.com:8000", "example.com:8005", "example.com:8010"},
			deny:  []string{"example.com:81", "example.com:22", "example.com:7999", "example.com:8011"}},
		{name: "addresses", layers: []Source{rules(RuleSource{Allow: []string{"192.0.2.0/24", "2001:db8::/32", "198.51.100.7:22"}})},
			allow: []string{"192.0.2.0", "192.0.2.255", "::ffff:192.0.2.9", "2001:db8:ffff::1", "198.51.100.7:22"},
			deny:  []string{"192.0.3.0", "192.0.1.255", "2001:db9::1", "198.51.100.7:23", "198.51.100.8:22", "example.com"}},
		{name: "an address rule says nothing about names, nor the reverse", layers: []Source{rules(RuleSource{Allow: []string{"0.0.0.0/0", "*.example.com"}})},
			allow: []string{"1.1.1.1", "a.example.com"}, deny: []string{"[2606::1]:443", "example.org"}},
		{name: "protocols", layers: []Source{rules(
			RuleSource{Allow: []string{"tcp.test"}, Protocol: "tcp"},
			RuleSource{Allow: []string{"tls.test"}, Protocol: "tls"},
			RuleSource{Allow: []string{"http.test"}, Protocol: "http"},
			RuleSource{Allow: []string{"udp.test"}, Protocol: "udp"},
		)},
			allow: []string{"tcp.test", "tcp.test tcp", "tcp.test tls", "tcp.test http GET /", "tls.test tls", "http.test http GET /", "udp.test udp"},
			deny:  []string{"tcp.test udp", "tls.test", "tls.test tcp", "tls.test http GET /", "http.test tls", "http.test tcp", "udp.test", "udp.test tls"}},
		{name: "deny without a protocol is about all", layers: []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"bad.test"}})},
			allow: []string{"good.test udp", "good.test"}, deny: []string{"bad.test udp", "bad.test tls", "bad.test http GET /"}},
		{name: "where names are denied, a bare address must be named", layers: []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"bad.test"}},
			RuleSource{Allow: []string{"*:1-99"}}, RuleSource{Allow: []string{"192.0.2.0/24"}}, RuleSource{Allow: []string{"192.0.2.0/24"}, Protocol: "udp"})},
			allow: []string{"good.test", "good.test udp", "192.0.2.7", "192.0.2.7 tls", "192.0.2.7 udp"},
			deny:  []string{"1.1.1.1", "1.1.1.1 udp", "1.1.1.1 tls", "1.1.1.1:80 http GET /", "[2606::1]:22"}},
		{name: "where addresses are denied, others are not", layers: []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"192.0.2.0/24"}})},
			allow: []string{"1.1.1.1", "1.1.1.1 udp", "1.1.1.1 tls"}, deny: []string{"192.0.2.7", "192.0.2.7 tls"}},
		{name: "deny beats everything, whatever the order and layer", layers: []Source{
			rules(RuleSource{Deny: []string{"a.example.com:443"}}),
			rules(RuleSource{Allow: []string{"a.example.com", "*.example.com"}}, RuleSource{Ask: []string{"a.example.com"}}),
			{Grants: true, Rules: []RuleSource{{Allow: []string{"a.example.com"}}}},
		}, allow: []string{"a.example.com:80", "b.example.com"}, deny: []string{"a.example.com:443"}},
		{name: "a wide deny beats a narrow allow", layers: []Source{rules(RuleSource{Allow: []string{"a.b.example.com"}, Deny: []string{"*.example.com"}})},
			deny: []string{"a.b.example.com"}},
		{name: "grants beat ask, ask beats allow", layers: []Source{
			{Default: "deny", Rules: []RuleSource{{Ask: []string{"*.example.com", "*.example.net"}}, {Allow: []string{"*.example.com", "other.test"}}}},
			{Grants: true, Rules: []RuleSource{{Allow: []string{"granted.example.com"}}}},
		}, allow: []string{"granted.example.com", "other.test"}, ask: []string{"a.example.com", "a.example.net"}, deny: []string{"example.com"}},
		{name: "a live deny", layers: []Source{rules(RuleSource{Allow: []string{"example.com"}}), {Grants: true, Rules: []RuleSource{{Deny: []string{"example.com"}}}}},
			deny: []string{"example.com"}},
		{name: "the last default holds", layers: []Source{{Default: "allow"}, {Default: "ask"}, {}}, ask: []string{"example.com", "1.1.1.1"}},
		{name: "a default of deny again", layers: []Source{{Default: "allow"}, {Default: "deny"}}, deny: []string{"example.com"}},
		{name: "groups", layers: []Source{{Groups: []string{"npm", "git-hosts"}}},
			allow: []string{"github.com", "github.com:22", "api.github.com:443 tls", "x.npmjs.org:80"},
			deny:  []string{"npmjs.org", "x.npmjs.org:22", "x.npmjs.org:8443", "pypi.org", "github.com:9418"}},
		{name: "groups as targets", layers: []Source{{Groups: []string{"git-hosts"}}, rules(RuleSource{Ask: []string{"@npm"}, Allow: []string{"@go"}})},
			allow: []string{"go.dev", "github.com"}, ask: []string{"x.npmjs.org"}, deny: []string{"x.npmjs.org:8443"}},
		{name: "a denied group is denied on all ports", layers: []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"@npm"}})},
			allow: []string{"github.com"}, deny: []string{"x.npmjs.org", "x.npmjs.org:8443", "x.npmjs.org udp"}},
		{name: "not enabled", layers: []Source{rules(RuleSource{Allow: []string{"example.com"}, Enabled: &off})}, deny: []string{"example.com"}},
		{name: "requests", layers: []Source{rules(
			RuleSource{Allow: []string{"api.test:80"}, Protocol: "http", Methods: []string{"GET", "head"}, Paths: []string{"/v1/*", "/open/**"}},
			RuleSource{Deny: []string{"api.test"}, Protocol: "http", Paths: []string{"/v1/secret/**"}},
			RuleSource{Deny: []string{"*"}, Protocol: "http", Methods: []string{"DELETE"}},
			RuleSource{Allow: []string{"all.test"}},
		)},
			allow: []string{"api.test:80 http GET /v1/x", "api.test:80 http HEAD /v1/x/?q", "api.test:80 http GET /a/../open/y/z",
				"api.test:80 http GET /open/a%2fb", "all.test http GET /", "all.test http GET /a%5cb", "all.test tls"},
			deny: []string{"api.test:80 http POST /v1/x", "api.test:80 http GET /v2", "api.test:80 http GET /v1/x/y", "api.test:80 http get /v1/x",
				"api.test:80 http GET /v1/%73ecret", "api.test:80 http GET /v1//secret", "api.test:80 http GET /v1/secret", "api.test:80 http GET /open/..%2fv1%2fsecret",
				"api.test:80 http GET /open/a%5cb", "api.test:80 http GET /open/%252e", "api.test:80 http GET /open/..%2f..%2fv2", "api.test:80 http GET", "api.test:80 http",
				"api.test:80 tls", "api.test:80", "api.test:81 http GET /v1/x", "all.test http DELETE /", "all.test http delete /", "all.test http"}},
		{name: "a path nobody can read is denied by rules about paths, and asked about", layers: []Source{{Default: "allow"}, rules(
			RuleSource{Deny: []string{"deny.test"}, Protocol: "http", Paths: []string{"/admin"}},
			RuleSource{Ask: []string{"ask.test"}, Protocol: "http", Paths: []string{"/admin"}},
		)},
			allow: []string{"deny.test http GET /", "ask.test http GET /", "other.test http GET /a%5cb"},
			ask:   []string{"ask.test http GET /admin", "ask.test http GET /a%5cb", "ask.test http GET /x%2f..%2fadmin"},
			deny:  []string{"deny.test http GET /admin", "deny.test http GET /a%5cb", "deny.test http GET /admin;x", "deny.test http GET /x%2f..%2fadmin", "deny.test http GET *"}},
		{name: "an address in another form is the same address to a deny rule", layers: []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"198.51.100.0/24"}})},
			allow: []string{"198.51.101.1", "64:ff9b::198.51.101.1"},
			deny:  []string{"198.51.100.1", "::ffff:198.51.100.1", "64:ff9b::198.51.100.1", "2002:c633:6401::1"}},
	} {
		set := compile(t, c.layers...)
		for want, queries := range map[Verdict][]string{Allow: c.allow, Ask: c.ask, Deny: c.deny} {
			for _, text := range queries {
				q := ask(t, text)
				d := set.Decide(q)
				if d.Verdict != want {
					t.Errorf("%s: %s: %v (%s), want %v", c.name, text, d.Verdict, d.Reason, want)
				}
				if d.Rule == "" || d.Reason == "" {
					t.Errorf("%s: %s: no reason: %+v", c.name, text, d)
				}
				checkExplained(t, set, q, d)
			}
		}
	}
}

// checkExplained: exactly one step decides, and it is the one of the decision.
func checkExplained(t *testing.T, set *Set, q Query, d Decision) {
	t.Helper()
	n := 0
	for _, s := range set.Explain(q) {
		if s.Why == "" {
			t.Errorf("%+v: a step without a why: %+v", q, s)
		}
		if s.Decides {
			n++
			if s.Verdict != d.Verdict || s.Rule != d.Rule || s.Origin != d.Origin || !s.Matched {
				t.Errorf("%+v: %+v explains %+v", q, s, d)
			}
		}
	}
	if n != 1 {
		t.Errorf("%+v: %d steps decide", q, n)
	}
}

func TestExpiry(t *testing.T) {
	at := time.Unix(1000, 0)
	set := compile(t, Source{Default: "ask"}, Source{Grants: true, Rules: []RuleSource{{Allow: []string{"example.com"}, Expires: at}}})
	for _, c := range []struct {
		now  time.Time
		want Verdict
	}{{time.Time{}, Allow}, {at.Add(-1), Allow}, {at, Ask}, {at.Add(time.Hour), Ask}} {
		q := Query{Host: "example.com", Port: 443, Now: c.now}
		if d := set.Decide(q); d.Verdict != c.want {
			t.Errorf("at %v: %+v", c.now, d)
		}
		if d := set.Name(q); d.Verdict != c.want {
			t.Errorf("at %v: %+v", c.now, d)
		}
	}
	set = compile(t, Source{Grants: true, Rules: []RuleSource{{Allow: []string{"10.0.0.1"}, Expires: at}}})
	if d := set.Address(Query{Port: 443, Now: at}, addr("10.0.0.1"), nil); d.Verdict != Deny {
		t.Errorf("an expired grant still names an address: %+v", d)
	}
	if d := set.Address(Query{Port: 443, Now: at.Add(-1)}, addr("10.0.0.1"), nil); d.Verdict != Allow {
		t.Errorf("a grant does not name an address: %+v", d)
	}
}

func TestConnect(t *testing.T) {
	set := compile(t, rules(
		RuleSource{Allow: []string{"tls.test:443"}, Protocol: "tls"},
		RuleSource{Allow: []string{"raw.test"}},
		RuleSource{Deny: []string{"raw.test:25"}, Protocol: "http"},
		RuleSource{Allow: []string{"api.test:80"}, Protocol: "http", Methods: []string{"GET"}, Paths: []string{"/v1/**"}},
		RuleSource{Deny: []string{"api.test:80"}, Protocol: "http", Paths: []string{"/v1/secret"}},
		RuleSource{Ask: []string{"ask.test:80"}, Protocol: "http", Paths: []string{"/v1/**"}},
		RuleSource{Allow: []string{"both.test:80"}, Protocol: "http"},
		RuleSource{Ask: []string{"both.test:80"}, Protocol: "http", Paths: []string{"/admin"}},
	))
	for text, want := range map[string][3]Verdict{ // raw, TLS, HTTP
		"tls.test:443":  {Deny, Allow, Deny},
		"tls.test:80":   {Deny, Deny, Deny},
		"raw.test:22":   {Allow, Allow, Allow},
		"raw.test:25":   {Allow, Allow, Deny},
		"api.test:80":   {Deny, Deny, Allow},
		"api.test:443":  {Deny, Deny, Deny},
		"ask.test:80":   {Deny, Deny, Ask},
		"both.test:80":  {Deny, Deny, Allow},
		"other.test:80": {Deny, Deny, Deny},
	} {
		p := set.Connect(ask(t, text))
		if got := [3]Verdict{p.Raw.Verdict, p.TLS.Verdict, p.HTTP.Verdict}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		best := max(want[0], want[1], want[2])
		if p.Best().Verdict != best {
			t.Errorf("%s: best %v", text, p.Best().Verdict)
		}
	}
	if p := set.Connect(Query{Host: "user@tls.test", Port: 443}); p.Best().Verdict != Deny {
		t.Errorf("a host with user information: %+v", p)
	}
}

func TestName(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers []Source
		host   string
		want   Verdict
		rule   string
	}{
		{"nobody", nil, "example.com", Deny, "default"},
		{"some port", []Source{rules(RuleSource{Allow: []string{"example.com:8443"}})}, "example.com", Allow, "allow example.com:8443"},
		{"some protocol", []Source{rules(RuleSource{Allow: []string{"example.com"}, Protocol: "udp"})}, "example.com", Allow, ""},
		{"some request", []Source{rules(RuleSource{Allow: []string{"example.com"}, Protocol: "http", Paths: []string{"/a"}})}, "example.com", Allow, ""},
		{"denied", []Source{rules(RuleSource{Allow: []string{"*.example.com"}, Deny: []string{"a.example.com"}})}, "a.example.com", Deny, "deny a.example.com"},
		{"denied on the only port", []Source{rules(RuleSource{Allow: []string{"example.com:443"}, Deny: []string{"*:1-1000"}})}, "example.com", Deny, ""},
		{"denied in two parts", []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"*:1-1000", "example.com:1001-65535"}})}, "example.com", Deny, ""},
		{"denied in two parts with a hole", []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"*:1-1000", "example.com:1002-65535"}})}, "example.com", Allow, "default"},
		{"a port is left", []Source{rules(RuleSource{Allow: []string{"example.com:443,2000"}, Deny: []string{"*:1-1000"}})}, "example.com", Allow, ""},
		{"a protocol is left", []Source{rules(RuleSource{Allow: []string{"example.com"}}, RuleSource{Deny: []string{"example.com"}, Protocol: "tls"})}, "example.com", Allow, ""},
		{"a request is left", []Source{rules(RuleSource{Allow: []string{"example.com"}, Protocol: "http"}, RuleSource{Deny: []string{"*"}, Protocol: "http", Methods: []string{"GET"}})}, "example.com", Allow, ""},
		{"ask", []Source{rules(RuleSource{Ask: []string{"example.com"}, Allow: []string{"example.com:443"}})}, "example.com", Ask, ""},
		{"ask on one port", []Source{rules(RuleSource{Ask: []string{"example.com:22"}, Allow: []string{"example.com"}})}, "example.com", Allow, ""},
		{"ask by default", []Source{{Default: "ask"}}, "example.com", Ask, "default"},
		{"granted", []Source{{Default: "ask"}, {Grants: true, Rules: []RuleSource{{Allow: []string{"example.com:443"}}}}}, "example.com", Allow, ""},
		{"open", []Source{{Default: "allow"}}, "example.com", Allow, "default"},
		{"no name", []Source{{Default: "allow"}}, "exa mple.com", Deny, "canonical"},
		{"other spelling", []Source{{Default: "allow"}, rules(RuleSource{Deny: []string{"example.com"}})}, "EXAMPLE.com.", Deny, ""},
	} {
		d := compile(t, c.layers...).Name(Query{Host: c.host})
		if d.Verdict != c.want || c.rule != "" && d.Rule != c.rule {
			t.Errorf("%s: %+v, want %v by %q", c.name, d, c.want, c.rule)
		}
	}
}

func TestBudget(t *testing.T) {
	set := compile(t,
		rules(
			RuleSource{Allow: []string{"*.example.com", "both.test"}},
			RuleSource{Name: "small", Allow: []string{"a.example.com:443", "b.test"}, MaxUpload: "10MB"},
			RuleSource{Allow: []string{"both.test", "x.test"}, MaxUpload: "5MB", MaxDownload: "1GB"},
			RuleSource{Allow: []string{"both.test"}, MaxDownload: "1MB"},
			RuleSource{Allow: []string{"both.test"}, MaxUpload: "6MB", MaxDownload: "2GB"},
			RuleSource{Ask: []string{"asked.test"}, MaxUpload: "1k"},
			RuleSource{Deny: []string{"no.example.com"}},
			RuleSource{Allow: []string{"granted.test"}, MaxUpload: "1k"},
		),
		Source{Grants: true, Rules: []RuleSource{{Allow: []string{"asked.test"}}, {Allow: []string{"granted.test"}, MaxUpload: "1MB"}}},
	)
	for host, want := range map[string]Budget{
		"a.example.com": {"small", 10 << 20, 0}, // the rule without one does not lift it
		"b.test":        {"small", 10 << 20, 0},
		"x.test":        {"allow both.test and 1 more", 5 << 20, 1 << 30},
		"both.test":     {"allow both.test and 1 more", 5 << 20, 1 << 20}, // the smaller of each
		"asked.test":    {"ask asked.test", 1 << 10, 0},
		"granted.test":  {"allow granted.test", 1 << 20, 0}, // the user's word
	} {
		d := set.Decide(Query{Host: host, Port: 443})
		if d.Verdict != Allow || d.Budget == nil || *d.Budget != want {
			t.Errorf("%s: %+v with %+v, want %+v", host, d, d.Budget, want)
		}
	}
	for _, host := range []string{"b.example.com", "no.example.com", "other.test"} {
		if d := set.Decide(Query{Host: host, Port: 443}); d.Budget != nil {
			t.Errorf("%s: %+v", host, d.Budget)
		}
	}
	if d := set.Decide(Query{Host: "a.example.com", Port: 80}); d.Verdict != Allow || d.Budget != nil {
		t.Errorf("another port: %+v", d)
	}
	b := Budget{Rule: "small"}
	if b.Key("x") == b.Key("y") {
		t.Error("two hosts share their counters")
	}
}

func TestExplain(t *testing.T) {
	set := compile(t, Source{Origin: "built-in", Default: "deny", Groups: []string{"git-hosts"}}, Source{Origin: "coffer.toml", Rules: []RuleSource{
		{Name: "no mail", Deny: []string{"*:25"}, Origin: "coffer.toml:3"},
		{Ask: []string{"*.github.com:443"}, Protocol: "tls"},
		{Allow: []string{"api.github.com:80"}, Protocol: "http", Methods: []string{"GET"}, Paths: []string{"/repos/**"}},
	}})
	var got []string
	for _, s := range set.Explain(Query{Host: "api.github.com", Port: 443, Protocol: TLS}) {
		mark := map[[2]bool]string{{true, true}: "decides", {true, false}: "matches", {false, false}: "misses"}[[2]bool{s.Matched, s.Decides}]
		got = append(got, strings.Join([]string{mark, s.Verdict.String(), s.Rule, s.Origin, s.Why}, " | "))
	}
	want := []string{
		`misses | deny | no mail | coffer.toml:3 | it is for port 25, not 443`,
		`decides | ask | ask *.github.com:443 tls | coffer.toml | rule "ask *.github.com:443 tls" (coffer.toml) asks the user first`,
		`misses | allow | allow api.github.com:80 http GET /repos/** | coffer.toml | it is for port 80, not 443`,
		`matches | allow | group git-hosts | built-in | rule "ask *.github.com:443 tls" was heard before`,
		`matches | deny | default | built-in | rule "ask *.github.com:443 tls" was heard before`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
