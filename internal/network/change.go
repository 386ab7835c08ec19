package network

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// A Change is what a user wants to be different about a sandbox's network, or to know.
type Change struct {
	// Do is allow, deny or reset (change the rules), pending, denials, budgets, or answer.
	Do string `json:"do"`
	// Rules are added by allow and deny.
	Rules []policy.RuleSource `json:"rules,omitempty"`
	// Targets limit reset to rules about them; none is all.
	Targets []string `json:"targets,omitempty"`
	// ID, Allow and Once are an answer: to which question, and what. Unless it is for
	// Once only, a rule is made of it, which ends at Expires.
	ID      int       `json:"id,omitempty"`
	Allow   bool      `json:"allow,omitempty"`
	Once    bool      `json:"once,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

// A Reply answers a Change.
type Reply struct {
	Rules   int               `json:"rules,omitempty"` // how many were added or taken away
	Pending []gateway.Request `json:"pending,omitempty"`
	Denials []gateway.Denial  `json:"denials,omitempty"`
	// Answered is the question that was answered.
	Answered gateway.Request `json:"answered,omitzero"`
	// Budgets are the bytes used, by rule and host.
	Budgets map[string]gateway.Used `json:"budgets,omitempty"`
}

// ChangePolicy does what a user wants with a sandbox's network, whether it runs or not.
func ChangePolicy(sb *sandbox.Sandbox, c Change) (r Reply, err error) {
	err = sb.Either(context.Background(), func(l *wire.Line) (err error) {
		r, err = c.ask(l)
		return err
	}, func() (err error) {
		r, err = changeAtRest(sb, c)
		return err
	})
	return r, err
}

// ask asks the supervisor.
func (c Change) ask(l *wire.Line) (r Reply, err error) {
	body, err := json.Marshal(c)
	if err != nil {
		return r, err
	}
	e, err := l.Ask(wire.Request{Op: wire.OpPolicy, Policy: body}, 20*time.Second)
	if err == nil {
		err = json.Unmarshal(e.Policy, &r)
	}
	return r, err
}

// changeAtRest changes the rules of a sandbox that does not run. The lock is held.
func changeAtRest(sb *sandbox.Sandbox, c Change) (Reply, error) {
	switch c.Do {
	case "pending", "denials":
		return Reply{}, nil
	case "budgets":
		used, err := readBudgets(sb)
		return Reply{Budgets: used}, err
	case "answer":
		return Reply{}, ui.Error("nothing waits for an answer: the sandbox does not run", "see 'coffer policy show'")
	}
	if sb.Network.None() {
		return Reply{}, noNetwork(sb)
	}
	if c.Do != "allow" && c.Do != "deny" && c.Do != "reset" {
		return Reply{}, fmt.Errorf("there is nothing called %q to do with a policy", c.Do)
	}
	old, err := sb.LiveRules()
	if err != nil && (c.Do != "reset" || len(c.Targets) > 0) {
		return Reply{}, err // a reset of everything takes away what is damaged, too
	}
	live, n := c.apply(current(old.Rules, time.Now()))
	if _, err := Compile(sb.Network, policy.Source{Grants: true, Rules: live}); err != nil {
		return Reply{}, err
	}
	if err := sb.LogOnce(audit.Event{Kind: audit.KindPolicy, Detail: describe(c)}); err != nil {
		return Reply{}, err
	}
	if err := sb.SaveLiveRules(live); err != nil {
		return Reply{}, err
	}
	return Reply{Rules: n}, nil
}

func noNetwork(sb *sandbox.Sandbox) error {
	return ui.Error("sandbox "+sb.Name+" was made without a network", "make one with --net standard")
}

// apply makes the new rules of the old ones.
func (c Change) apply(live []policy.RuleSource) (rules []policy.RuleSource, changed int) {
	if c.Do != "reset" {
		return append(slices.Clone(live), c.Rules...), len(c.Rules)
	}
	if len(c.Targets) == 0 {
		return nil, len(live)
	}
	about := func(r policy.RuleSource) bool {
		for _, t := range c.Targets {
			if slices.Contains(r.Allow, t) || slices.Contains(r.Deny, t) || slices.Contains(r.Ask, t) {
				return true
			}
		}
		return false
	}
	rules = slices.DeleteFunc(slices.Clone(live), about)
	return rules, len(live) - len(rules)
}

// Answer does what OpPolicy asks of a running sandbox.
func (n *Network) Answer(sb *sandbox.Sandbox, body json.RawMessage) (e wire.Event, err error) {
	if n == nil {
		return e, noNetwork(sb)
	}
	var c Change
	if err := json.Unmarshal(body, &c); err != nil {
		return e, err
	}
	r, err := n.change(c)
	if err == nil {
		e.Policy, err = json.Marshal(r)
	}
	return e, err
}

func (n *Network) change(c Change) (r Reply, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch c.Do {
	case "pending":
		r.Pending = append(n.gateway.Pending(), n.consents.pending()...)
		slices.SortFunc(r.Pending, func(a, b gateway.Request) int { return cmp.Compare(a.ID, b.ID) })
	case "denials":
		r.Denials = n.gateway.Denials()
	case "budgets":
		r.Budgets = n.gateway.Budgets()
	case "answer":
		return n.answer(c)
	case "allow", "deny", "reset":
		live, changed := c.apply(current(n.live, time.Now()))
		r.Rules = changed
		err = n.setLive(live)
		if err == nil {
			n.o.Log(audit.Event{Kind: audit.KindPolicy, Detail: describe(c)})
		}
	default:
		err = fmt.Errorf("there is nothing called %q to do with a policy", c.Do)
	}
	return r, err
}

// setLive puts the user's rules in force: in the file first, so that they stay. The
// lock is held.
func (n *Network) setLive(live []policy.RuleSource) error {
	set, err := Compile(n.sb.Network, policy.Source{Grants: true, Origin: "coffer policy", Rules: live})
	if err != nil {
		return err
	}
	if err := n.sb.SaveLiveRules(live); err != nil {
		return err
	}
	n.live = live
	n.gateway.SetPolicy(set)
	return nil
}

// answer settles a question. The lock is held.
func (n *Network) answer(c Change) (r Reply, err error) {
	if q, done := n.consents.answer(c); done {
		r.Answered = q
		return r, nil
	}
	asked := n.gateway.Pending()
	i := slices.IndexFunc(asked, func(q gateway.Request) bool { return q.ID == c.ID })
	if i < 0 {
		return r, ui.Error(fmt.Sprintf("no question has the number %d", c.ID), "see 'coffer policy pending'")
	}
	q := asked[i]
	r.Answered = q
	verdict := "deny"
	if c.Allow {
		verdict = "allow"
	}
	if q.Filed && c.Once && c.Allow {
		return r, ui.Error("no connection waits for this answer, so 'once' would be for nothing", "answer with --for 10m, or without --once")
	}
	if !c.Once {
		if !literal(q.Path) || len(q.Path) > maxRulePath {
			return r, ui.Error("this path cannot be written as a rule", "answer with --once")
		}
		rule := ruleFor(q, c.Allow)
		rule.Expires = c.Expires
		if err := n.setLive(append(current(n.live, time.Now()), rule)); err != nil {
			return r, err
		}
		r.Rules = 1
	}
	n.o.Log(audit.Event{Kind: audit.KindPolicy, Host: q.Host, Port: q.Port, Verdict: verdict, Detail: fmt.Sprintf("answer to question %d", q.ID)})
	if err := n.gateway.Answer(c.ID, c.Allow); err != nil && c.Once {
		return r, err
	}
	return r, nil
}

// literal says whether a path that a program chose means itself as a pattern: it has
// neither wildcards nor anything that could be decoded to one.
func literal(path string) bool {
	for _, r := range path {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-._~", r)
		if !plain {
			return false
		}
	}
	return true
}

// maxRulePath is how long a path may be that a program chose and a rule is made of.
const maxRulePath = 128

// ruleFor is a rule about exactly what was asked.
func ruleFor(q gateway.Request, allow bool) policy.RuleSource {
	r := RuleFor(destination(q.Host, q.Addr, q.Port), allow)
	switch {
	case q.Protocol == policy.UDP:
		r.Protocol = policy.UDP.String()
	case q.Method != "":
		r.Protocol, r.Methods = q.Protocol.String(), []string{q.Method}
		if q.Path != "" {
			r.Paths = []string{q.Path}
		}
	}
	return r
}

// RuleFor is a rule of the user's own about one target.
func RuleFor(target string, allow bool) policy.RuleSource {
	r := policy.RuleSource{Origin: "coffer policy"}
	if allow {
		r.Allow = []string{target}
	} else {
		r.Deny = []string{target}
	}
	return r
}

func describe(c Change) string {
	text := c.Do
	for _, r := range c.Rules {
		for _, t := range slices.Concat(r.Allow, r.Deny) {
			text += " " + t
		}
	}
	for _, t := range c.Targets {
		text += " " + t
	}
	return text
}
