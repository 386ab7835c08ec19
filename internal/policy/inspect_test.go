package policy

import "testing"

// Requests in TLS are held against the rules where one of them looks at requests, and only there.
func TestInspects(t *testing.T) {
	for _, c := range []struct {
		name string
		rule []RuleSource
		want bool // example.com:443 is looked into
		get  Verdict
		post Verdict
		all  Verdict // TLS that nobody looks into
		best Verdict // what some request could get
	}{
		{"a host", []RuleSource{{Allow: []string{"example.com"}}}, false, Allow, Allow, Allow, Allow},
		{"a method", []RuleSource{{Allow: []string{"example.com"}, Methods: []string{"GET"}}}, true, Allow, Deny, Deny, Allow},
		{"a method of TLS", []RuleSource{{Allow: []string{"*"}, Protocol: "tls", Methods: []string{"GET"}}}, true, Allow, Deny, Deny, Allow},
		{"a method in plain text", []RuleSource{{Allow: []string{"example.com"}, Protocol: "http", Methods: []string{"GET"}}}, false, Deny, Deny, Deny, Deny},
		{"another port", []RuleSource{{Allow: []string{"example.com"}}, {Deny: []string{"example.com:8443"}, Methods: []string{"GET"}}}, false, Allow, Allow, Allow, Allow},
		{"another path", []RuleSource{{Allow: []string{"example.com"}, Paths: []string{"/b/**"}}}, true, Deny, Deny, Deny, Allow},
		{"a denied method", []RuleSource{{Allow: []string{"example.com"}}, {Deny: []string{"*.com"}, Methods: []string{"POST"}}}, true, Allow, Deny, Deny, Allow},
		{"to look", []RuleSource{{Allow: []string{"example.com"}, Inspect: true}}, true, Allow, Allow, Allow, Allow},
		{"to pass", []RuleSource{{Allow: []string{"example.com"}, Inspect: true}, {Allow: []string{"example.com"}, TLS: "pass"}}, false, Allow, Allow, Allow, Allow},
		{"to pass what another denies", []RuleSource{{Deny: []string{"example.com"}, Methods: []string{"POST"}}, {Allow: []string{"example.com"}, TLS: "pass"}}, false, Deny, Deny, Deny, Deny},
		{"a question", []RuleSource{{Allow: []string{"example.com"}, Methods: []string{"GET"}}, {Ask: []string{"example.com"}, Methods: []string{"POST"}}}, true, Allow, Ask, Ask, Allow},
	} {
		set := compile(t, rules(c.rule...))
		q := Query{Host: "example.com", Port: 443, Protocol: TLS}
		if got := set.Inspects(q); got != c.want {
			t.Errorf("%s: inspects %v", c.name, got)
		}
		all, best := set.Decide(q).Verdict, set.Connect(q).TLS.Verdict
		q.Path = "/a"
		q.Method = "GET"
		get := set.Decide(q).Verdict
		q.Method = "POST"
		if post := set.Decide(q).Verdict; get != c.get || post != c.post || all != c.all || best != c.best {
			t.Errorf("%s: GET %v, POST %v, all %v, best %v", c.name, get, post, all, best)
		}
		if inspects := c.rule[0].Inspects(); c.want && len(c.rule) == 1 && !inspects {
			t.Errorf("%s: the rule does not say so", c.name)
		}
	}
}

// Raw TCP is not HTTP: a rule about requests neither allows nor denies it.
func TestRequestsAreNotTCP(t *testing.T) {
	set := compile(t, rules(RuleSource{Allow: []string{"a.com"}, Methods: []string{"GET"}}, RuleSource{Allow: []string{"b.com"}}, RuleSource{Deny: []string{"b.com"}, Methods: []string{"POST"}}))
	for host, want := range map[string]Verdict{"a.com": Deny, "b.com": Allow} {
		if d := set.Decide(Query{Host: host, Port: 22, Protocol: TCP}); d.Verdict != want {
			t.Errorf("%s: %v", host, d)
		}
	}
}

// What is passed on is out of sight of other rules, so only the user can say so.
func TestPassIsBeyond(t *testing.T) {
	set := compile(t, rules(RuleSource{Allow: []string{"*.a.com"}, Inspect: true}))
	if got := set.Beyond(RuleSource{Allow: []string{"x.a.com"}}); len(got) > 0 {
		t.Errorf("an allowed host: %v", got)
	}
	if got := set.Beyond(RuleSource{Allow: []string{"x.a.com"}, TLS: "pass"}); len(got) != 1 {
		t.Errorf("an allowed host that is passed on: %v", got)
	}
}
