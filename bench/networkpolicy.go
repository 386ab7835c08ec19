package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/policy/policytest"
)

// decisions is how long the policy takes to decide, where there are many rules.
type decisions struct {
	Rules int        `json:"rules"`
	Times []decision `json:"times"`
}

// decision is one kind of question.
type decision struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50_ns"`
	P90  float64 `json:"p90_ns"`
}

const (
	manyRules   = 1000
	decisionBar = 100_000.0 // ns
	inARow      = 1000      // decisions between two looks at the clock
)

// manyPolicy has rules of every kind, beside the groups that are built in.
func manyPolicy() (*policy.Set, error) {
	builtin, err := policy.Builtin("standard")
	if err != nil {
		return nil, err
	}
	return policy.Compile(builtin, policy.Source{Rules: policytest.Rules(manyRules)})
}

// measureDecisions asks the policy alone: nothing is sent.
func measureDecisions(l *lab, cost *networkCost) error {
	set, err := manyPolicy()
	if err != nil {
		return err
	}
	cost.Decisions = &decisions{Rules: manyRules}
	fmt.Printf("\na decision among %d rules, ns\n", manyRules)
	for _, ask := range []struct {
		name string
		q    policy.Query
		want policy.Verdict
	}{
		{"a host by its name", policy.Query{Host: "host500.example.com", Port: 443, Protocol: policy.TLS}, policy.Allow},
		{"a host below a domain", policy.Query{Host: "a.b.c.zone501.example.com", Port: 443, Protocol: policy.TLS}, policy.Allow},
		{"a host that is denied", policy.Query{Host: "bad502.zone501.example.com", Port: 443, Protocol: policy.TLS}, policy.Deny},
		{"a host of a group", policy.Query{Host: "api.github.com", Port: 443, Protocol: policy.TLS}, policy.Allow},
		{"an address", policy.Query{Addr: netip.MustParseAddr("10.1.247.9"), Port: 5432, Protocol: policy.TCP}, policy.Allow},
		{"a host of no rule", policy.Query{Host: "nobody.has.heard.of.it.test", Port: 443, Protocol: policy.TLS}, policy.Deny},
	} {
		if got := set.Decide(ask.q).Verdict; got != ask.want {
			return fmt.Errorf("%s: the policy says %s", ask.name, got)
		}
		var times []time.Duration
		for range l.warmup + l.rounds {
			start := time.Now()
			for range inARow {
				set.Decide(ask.q)
			}
			times = append(times, time.Since(start))
		}
		times = times[l.warmup:]
		slices.Sort(times)
		each := func(q float64) float64 { return round3(float64(quantile(times, q)) / inARow) }
		d := decision{ask.name, each(0.5), each(0.9)}
		cost.Decisions.Times = append(cost.Decisions.Times, d)
		fmt.Printf("%-22s %9.0f p50 %9.0f p90\n", d.Name, d.P50, d.P90)
	}
	return nil
}

// judgeDecisions is about the slowest kind.
func (r *result) judgeDecisions(d *decisions) {
	measure, wanted := fmt.Sprintf("decision of %d rules, p50", manyRules), "≤ 100 µs"
	if d == nil || len(d.Times) == 0 {
		r.unmeasured(measure, wanted)
		return
	}
	slowest := slices.MaxFunc(d.Times, func(a, b decision) int { return int(a.P50 - b.P50) })
	r.bar(measure, wanted, fmt.Sprintf("%.2f µs (%s)", slowest.P50/1000, slowest.Name), slowest.P50 <= decisionBar)
}
