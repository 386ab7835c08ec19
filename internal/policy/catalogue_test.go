package policy

import (
	"net/netip"
	"strings"
	"testing"
)

// The ways around network policies that are known from elsewhere, as far as the policy
// alone can stop them. Each has a control that passes.

func TestMetadataInAnySpelling(t *testing.T) {
	open := compile(t, Source{Default: "allow"})
	hosts := append([]string{"fd00:ec2::254", "[fd00:0ec2::0254]", "64:ff9b::a9fe:a9fe", "::169.254.169.254", "100.100.100.200", "168.63.129.16"}, spellings["169.254.169.254"]...)
	for _, host := range hosts {
		q, err := NewQuery(host, 80)
		if err != nil {
			t.Fatal(err)
		}
		if q.Host != "" {
			t.Errorf("%s is taken for a name", host)
		}
		if d := open.Address(q, q.Addr, nil); d.Verdict != Deny || !strings.Contains(d.Reason, "cloud metadata") {
			t.Errorf("%s: %+v", host, d)
		}
	}
	q, _ := NewQuery("1.1.1.1", 80)
	if d := open.Address(q, q.Addr, nil); d.Verdict != Allow {
		t.Errorf("control: %+v", d)
	}
}

func TestHostLoopback(t *testing.T) {
	open := compile(t, Source{Default: "allow"}, rules(RuleSource{Allow: []string{"*", "0.0.0.0/0", "::/0", "localhost"}}))
	for _, host := range append([]string{"0.0.0.0", "0", "::", "::1", "127.8.8.8", "64:ff9b::7f00:1"}, spellings["127.0.0.1"]...) {
		q, err := NewQuery(host, 80)
		if err != nil {
			t.Fatal(err)
		}
		if d := open.Address(q, q.Addr, nil); d.Verdict != Deny {
			t.Errorf("%s: %+v", host, d)
		}
	}
	named := compile(t, rules(RuleSource{Allow: []string{"127.0.0.1:8080"}}))
	for port, want := range map[uint16]Verdict{8080: Allow, 8081: Deny} {
		if d := named.Address(Query{Port: port}, addr("127.0.0.1"), nil); d.Verdict != want {
			t.Errorf("control: port %d: %+v", port, d)
		}
	}
}

func TestRebinding(t *testing.T) {
	set := compile(t, rules(RuleSource{Allow: []string{"evil.test:443"}}))
	q := Query{Host: "evil.test", Port: 443, Protocol: TLS}
	if d := set.Decide(q); d.Verdict != Allow {
		t.Fatalf("control: %+v", d)
	}
	own := func(a netip.Addr) bool { return a == addr("93.184.215.14") }
	for a, want := range map[string]Verdict{
		"93.184.215.15": Allow, "93.184.215.14": Deny, "10.0.0.1": Deny, "127.0.0.1": Deny, "::1": Deny, "169.254.169.254": Deny,
		"::ffff:192.168.0.1": Deny, "64:ff9b::c0a8:1": Deny, "fe80::1": Deny, "fd00::1": Deny, "100.64.0.1": Deny, "0.0.0.0": Deny,
	} {
		if d := set.Address(q, addr(a), own); d.Verdict != want {
			t.Errorf("%s: %+v, want %v", a, d, want)
		}
	}
}

func TestAnotherPort(t *testing.T) {
	src, _ := Builtin("standard")
	set := compile(t, src)
	for port, want := range map[uint16]Verdict{443: Allow, 80: Allow, 22: Allow, 25: Deny, 8443: Deny, 0: Deny} {
		if d := set.Connect(Query{Host: "github.com", Port: port}).Best(); d.Verdict != want {
			t.Errorf("port %d: %+v, want %v", port, d, want)
		}
	}
}

// A name that is denied in one spelling is denied in all of them, also if the caller
// forgot to ask for the canonical one; what has none is denied always.
func TestDeniedInAllSpellings(t *testing.T) {
	for want, list := range spellings {
		denied := compile(t, Source{Default: "allow"}, rules(RuleSource{Deny: []string{want}}))
		for _, rule := range list {
			set := compile(t, Source{Default: "allow"}, rules(RuleSource{Allow: []string{"*"}, Deny: []string{rule}}))
			for _, host := range list {
				if d := set.Decide(Query{Host: host, Port: 443}); d.Verdict != Deny {
					t.Errorf("%s is denied, %s is not: %+v", rule, host, d)
				}
				if d := denied.Connect(Query{Host: host, Port: 443}).Best(); d.Verdict != Deny {
					t.Errorf("%s is denied, %s is not: %+v", want, host, d)
				}
			}
		}
		if d := denied.Decide(Query{Host: "control.test", Port: 443}); d.Verdict != Allow {
			t.Errorf("control: %+v", d)
		}
	}
	open := compile(t, Source{Default: "allow"}, rules(RuleSource{Allow: []string{"*", "*.example.com", "example.com"}}))
	for _, host := range []string{
		"example.com\x00.evil.test", "user@example.com", "example.com:443", "example.com%00", "exa mple.com", "a＠example.com", "fe80::1%1", "a..example.com", "*.example.com",
	} {
		q := Query{Host: host, Port: 443}
		if d := open.Decide(q); d.Verdict != Deny {
			t.Errorf("Decide %q: %+v", host, d)
		}
		if d := open.Name(q); d.Verdict != Deny {
			t.Errorf("Name %q: %+v", host, d)
		}
	}
}

func TestEmptyAllowList(t *testing.T) {
	for _, set := range []*Set{compile(t), compile(t, Source{}), compile(t, Source{Groups: []string{}, Rules: []RuleSource{}}), {}} {
		for _, q := range []Query{
			{Host: "example.com", Port: 443}, {Host: "localhost", Port: 80}, {Addr: addr("1.1.1.1"), Port: 443}, {Addr: addr("::1"), Port: 1},
			{Host: "example.com", Port: 53, Protocol: UDP}, {}, {Host: "example.com", Protocol: 77},
		} {
			if d := set.Decide(q); d.Verdict != Deny {
				t.Errorf("%+v: %+v", q, d)
			}
			if d := set.Connect(q).Best(); d.Verdict != Deny {
				t.Errorf("%+v: %+v", q, d)
			}
			if d := set.Name(q); d.Verdict != Deny {
				t.Errorf("%+v: %+v", q, d)
			}
		}
	}
}
