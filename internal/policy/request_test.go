package policy

import (
	"strings"
	"testing"
)

// TestRefusedRequest: who asks a host that is allowed for another request is told which
// ones are.
func TestRefusedRequest(t *testing.T) {
	set, err := Compile(Source{Default: "deny", Rules: []RuleSource{
		{Name: "docs", Allow: []string{"a.com:80"}, Protocol: "http", Methods: []string{"get"}, Paths: []string{"/docs/**"}},
		{Allow: []string{"b.com"}, Protocol: "http", Methods: []string{"GET", "HEAD"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		q    Query
		want string
	}{
		{Query{Host: "a.com", Port: 80, Protocol: HTTP, Method: "GET", Path: "/admin"}, `rule "docs" is only for GET of /docs/**`},
		{Query{Host: "a.com", Port: 80, Protocol: HTTP, Method: "POST", Path: "/docs/x"}, `rule "docs" is only for GET of /docs/**`},
		{Query{Host: "b.com", Port: 80, Protocol: HTTP, Method: "PUT", Path: "/"}, "is only for GET, HEAD"},
		{Query{Host: "c.com", Port: 80, Protocol: HTTP, Method: "GET", Path: "/"}, "no rule matches"},
		{Query{Host: "a.com", Port: 80, Protocol: TLS}, "no rule matches"},
	} {
		if d := set.Decide(test.q); d.Verdict != Deny || d.Rule != "default" || !strings.Contains(d.Reason, test.want) {
			t.Errorf("%+v: %+v, want %q", test.q, d, test.want)
		}
	}
}

func TestExact(t *testing.T) {
	set, err := Compile(
		Source{Default: "allow", Rules: []RuleSource{
			{Allow: []string{"a.com", "*.com", "x.b.com:443", "10.0.0.1"}}, {Ask: []string{"asked.org"}}, {Deny: []string{"no.com"}},
		}},
		Source{Grants: true, Rules: []RuleSource{{Allow: []string{"*.b.com"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"a.com": true, "c.com": false, "x.b.com": true, "y.b.com": false, "asked.org": true, "no.com": false, "else.org": false} {
		if d := set.Decide(Query{Host: host, Port: 443}); d.Exact != want {
			t.Errorf("%s: %+v", host, d)
		}
	}
	if d := set.Decide(Query{Host: "x.b.com", Port: 80}); d.Exact {
		t.Errorf("another port: %+v", d)
	}
}

// TestProtocolHint: people write https for what is TLS here.
func TestProtocolHint(t *testing.T) {
	for text, want := range map[string]string{"https": "tls", "ssh": "tcp", "smtp": "not one of tcp, udp, tls, http"} {
		if err := new(Protocol).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
