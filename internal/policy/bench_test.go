package policy_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/policy/policytest"
)

// thousand is a set as nobody has it: a thousand rules of all kinds, beside the groups.
func thousand(tb testing.TB, budget string) *policy.Set {
	tb.Helper()
	src := policy.Source{Rules: policytest.Rules(1000)}
	for _, g := range policy.Groups() {
		src.Groups = append(src.Groups, g.Name)
	}
	for i := range src.Rules {
		if r := &src.Rules[i]; len(r.Allow) > 0 {
			r.MaxUpload = budget
		}
	}
	set, err := policy.Compile(src, policy.Source{Grants: true, Rules: []policy.RuleSource{{
		Allow: []string{"granted.example.net:443"}, Expires: time.Unix(2e9, 0),
	}}})
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func benchQueries() map[string]policy.Query {
	now := time.Unix(1e9, 0)
	return map[string]policy.Query{
		"exact":   {Host: "host500.example.com", Port: 443, Protocol: policy.TLS},
		"suffix":  {Host: "a.b.c.zone501.example.com", Port: 443, Protocol: policy.TLS},
		"deny":    {Host: "bad502.zone501.example.com", Port: 443, Protocol: policy.TLS},
		"group":   {Host: "api.github.com", Port: 443, Protocol: policy.TLS},
		"default": {Host: "nobody.has.heard.of.it.test", Port: 443, Protocol: policy.TLS},
		"cidr":    {Addr: netip.MustParseAddr("10.1.247.9"), Port: 5432},
		"grant":   {Host: "granted.example.net", Port: 443, Now: now},
		"deep":    {Host: "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.test", Port: 443},
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, budget := range []string{"", "10MB"} {
		set := thousand(b, budget)
		for name, q := range benchQueries() {
			b.Run(name+budget, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					set.Decide(q)
				}
			})
		}
	}
}

func BenchmarkConnect(b *testing.B) {
	set := thousand(b, "")
	b.ReportAllocs()
	for b.Loop() {
		set.Connect(policy.Query{Host: "host500.example.com", Port: 443})
	}
}

func BenchmarkName(b *testing.B) {
	set := thousand(b, "")
	b.ReportAllocs()
	for b.Loop() {
		set.Name(policy.Query{Host: "host500.example.com"})
	}
}

func BenchmarkAddress(b *testing.B) {
	set := thousand(b, "")
	b.ReportAllocs()
	for b.Loop() {
		set.Address(policy.Query{Port: 443}, netip.MustParseAddr("93.184.215.14"), nil)
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		thousand(b, "")
	}
}

// The built-in policy is compiled when a sandbox starts.
func BenchmarkCompileStandard(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		src, _ := policy.Builtin("standard")
		if _, err := policy.Compile(src); err != nil {
			b.Fatal(err)
		}
	}
}
