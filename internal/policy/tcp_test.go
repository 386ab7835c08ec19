package policy

import (
	"fmt"
	"testing"
)

func TestTCPPorts(t *testing.T) {
	allow := func(protocol string, targets ...string) Source {
		return Source{Default: "deny", Rules: []RuleSource{{Allow: targets, Protocol: protocol}}}
	}
	for _, c := range []struct {
		name  string
		layer Source
		want  string
		every bool
	}{
		{"nothing", Source{Default: "deny"}, "[]", false},
		{"open", Source{Default: "allow"}, "[]", true},
		{"nobody is asked", Source{Default: "ask", Rules: []RuleSource{{Ask: []string{"a.example:22"}}}}, "[]", false},
		{"some", allow("", "a.example:443", "b.example:80,8000-8010", "c.example:81"), "[[80 81] [443 443] [8000 8010]]", false},
		{"any", allow("", "10.0.0.0/8"), "[]", true},
		{"not UDP", allow("udp", "a.example:53"), "[]", false},
		{"TLS", allow("tls", "a.example:853"), "[[853 853]]", false},
		{"denied", Source{Default: "deny", Rules: []RuleSource{{Deny: []string{"a.example:25"}}}}, "[]", false},
	} {
		set, err := Compile(c.layer)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got, every := set.TCPPorts(); fmt.Sprint(got) != c.want || every != c.every {
			t.Errorf("%s: %v, %v", c.name, got, every)
		}
	}
	set, err := Stack{Mode: "standard"}.Compile(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if got, every := set.TCPPorts(); every || len(got) == 0 || len(got) > 10 {
		t.Errorf("standard: %v, %v", got, every)
	} else {
		t.Log(got)
	}
}
