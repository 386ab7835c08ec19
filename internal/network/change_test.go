package network

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/policy"
)

// A lasting answer is about what was asked, and nothing beside it.
func TestRuleForQuestion(t *testing.T) {
	six := netip.MustParseAddr("fd00::1")
	for name, c := range map[string]struct {
		asked gateway.Request
		yes   []policy.Query
		no    []policy.Query
	}{
		"a name": {gateway.Request{Host: "api.example.com", Port: 443},
			[]policy.Query{{Host: "api.example.com", Port: 443, Protocol: policy.TLS}},
			[]policy.Query{{Host: "api.example.com", Port: 444}, {Host: "x.api.example.com", Port: 443}, {Host: "api.example.com", Port: 443, Protocol: policy.UDP}}},
		"an IPv6 address": {gateway.Request{Host: six.String(), Addr: six, Port: 22},
			[]policy.Query{{Addr: six, Port: 22}},
			[]policy.Query{{Addr: netip.MustParseAddr("fd00::1:22"), Port: 22}, {Addr: six, Port: 23}}},
		"UDP": {gateway.Request{Host: "time.example.com", Port: 123, Protocol: policy.UDP},
			[]policy.Query{{Host: "time.example.com", Port: 123, Protocol: policy.UDP}},
			[]policy.Query{{Host: "time.example.com", Port: 123, Protocol: policy.TCP}}},
		"one kind of request": {gateway.Request{Host: "example.com", Port: 80, Protocol: policy.HTTP, Method: "GET", Path: "/docs"},
			[]policy.Query{{Host: "example.com", Port: 80, Protocol: policy.HTTP, Method: "GET", Path: "/docs"}},
			[]policy.Query{{Host: "example.com", Port: 80, Protocol: policy.HTTP, Method: "POST", Path: "/docs"},
				{Host: "example.com", Port: 80, Protocol: policy.HTTP, Method: "GET", Path: "/admin"}}},
	} {
		set, err := policy.Compile(policy.Source{Grants: true, Rules: []policy.RuleSource{ruleFor(c.asked, true)}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, q := range c.yes {
			if d := set.Decide(q); d.Verdict != policy.Allow {
				t.Errorf("%s: %+v is not allowed: %s", name, q, d.Reason)
			}
		}
		for _, q := range c.no {
			if d := set.Decide(q); d.Verdict != policy.Deny {
				t.Errorf("%s: %+v is allowed: %s", name, q, d.Reason)
			}
		}
	}
}

func TestLiteral(t *testing.T) {
	for path, want := range map[string]bool{
		"": true, "/docs/a-b_c.d~e": true, "/*": false, "/%2A%2A": false, "/a b": false, `/\*`: false, "/é": false, "/a?b": false,
	} {
		if literal(path) != want {
			t.Errorf("%q: want %v", path, want)
		}
	}
}

func TestChangeApply(t *testing.T) {
	old := []policy.RuleSource{RuleFor("a.example.com", true), RuleFor("b.example.com", false)}
	if got, n := (Change{Do: "allow", Rules: []policy.RuleSource{RuleFor("c.example.com", true)}}).apply(old); len(got) != 3 || n != 1 || len(old) != 2 {
		t.Errorf("allow: %v, %d", got, n)
	}
	if got, n := (Change{Do: "reset", Targets: []string{"b.example.com"}}).apply(old); len(got) != 1 || got[0].Allow[0] != "a.example.com" || n != 1 {
		t.Errorf("reset of one: %v, %d", got, n)
	}
	if got, n := (Change{Do: "reset"}).apply(old); len(got) != 0 || n != 2 {
		t.Errorf("reset: %v, %d", got, n)
	}
	gone := RuleFor("d.example.com", true)
	gone.Expires = time.Now().Add(-time.Second)
	if got := current(append(old, gone), time.Now()); len(got) != 2 {
		t.Errorf("what has expired stays: %v", got)
	}
}
