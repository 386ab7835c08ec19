package policy

import "slices"

// A Stack is the layers of a sandbox's policy, the lowest first.
type Stack struct {
	Mode  string   // the built-in one at the bottom; empty is none
	Max   string   // the mode that the administrator allows at most, if any
	Rules []Source // what config files add
}

// Compile puts the layers together, with the user's live changes on top.
func (n Stack) Compile(live Source) (*Set, error) {
	mode := n.Mode
	if mode == "" {
		mode = "none"
	}
	first, err := Builtin(mode)
	if err != nil {
		return nil, err
	}
	if live, err = n.capped(live); err != nil {
		return nil, err
	}
	layers := append([]Source{first}, n.Rules...)
	return Compile(append(layers, live)...)
}

// capped leaves out of the live changes what goes beyond the administrator's maximum.
// (The other layers were held to it when the sandbox was made.)
func (n Stack) capped(live Source) (Source, error) {
	if n.Max != "none" && n.Max != "standard" || len(live.Rules) == 0 {
		return live, nil
	}
	most, err := Builtin(n.Max)
	if err != nil {
		return live, err
	}
	set, err := Compile(most)
	if err != nil {
		return live, err
	}
	var rules []RuleSource
	for _, r := range live.Rules {
		beyond := set.Beyond(r)
		r.Allow = slices.DeleteFunc(slices.Clone(r.Allow), func(t string) bool { return slices.Contains(beyond, t) })
		r.Ask = nil
		if len(r.Allow)+len(r.Deny) > 0 {
			rules = append(rules, r)
		}
	}
	live.Rules = rules
	return live, nil
}
