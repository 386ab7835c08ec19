package config

import "github.com/cofferhq/coffer/internal/policy"

// Merging, in one table (docs/config.md has it too):
//
//	a value               the upper file's counts
//	a table               key by key
//	a list                the upper file's items come after the lower's, each once
//	a named entry         (a mount, a daemon, an agent; a rule with a name) key by key, and a list in it
//	                      is replaced: who writes the targets of a rule means these
//	a rule without name   is added
//
// Every value keeps its place, which is its origin.

// merge lays one tree over another. Neither is changed.
func merge(lower, upper *node) *node { return mergeTables(lower, upper, "", false) }

func mergeTables(lower, upper *node, path string, named bool) *node {
	out := &node{kind: table, at: upper.at, key: upper.key, fields: map[string]*node{}}
	for _, name := range lower.order {
		out.set(name, lower.fields[name])
	}
	for _, name := range upper.order {
		up, low := upper.fields[name], out.fields[name]
		if low == nil || low.kind != up.kind {
			out.set(name, up)
			continue
		}
		below := join(path, name)
		switch {
		case up.kind == table:
			out.set(name, mergeTables(low, up, below, named || path == "mounts" || path == "daemons" || path == "agents"))
		case up.kind == list && below == "network.rules":
			out.set(name, mergeRules(low, up))
		case up.kind == list && !named:
			out.set(name, mergeLists(low, up))
		default:
			out.set(name, up)
		}
	}
	return out
}

// mergeLists adds the items that are not there yet. An item of the lower file that is
// named again stays the lower file's.
func mergeLists(lower, upper *node) *node {
	out := &node{kind: list, at: upper.at, key: upper.key}
	out.items = append(out.items, lower.items...)
next:
	for _, item := range upper.items {
		for _, old := range out.items {
			if old.equal(item) {
				continue next
			}
		}
		out.items = append(out.items, item)
	}
	return out
}

func mergeRules(lower, upper *node) *node {
	out := &node{kind: list, at: upper.at, key: upper.key}
	out.items = append(out.items, lower.items...)
	for _, rule := range upper.items {
		if i := findRule(out, ruleName(rule)); i >= 0 {
			out.items[i] = mergeTables(out.items[i], rule, "network.rules", true)
		} else {
			out.items = append(out.items, rule)
		}
	}
	return out
}

func ruleName(rule *node) string {
	if n := rule.get("name"); n != nil {
		return n.text
	}
	return ""
}

func findRule(rules *node, name string) int {
	if name == "" || rules == nil {
		return -1
	}
	for i, r := range rules.items {
		if ruleName(r) == name {
			return i
		}
	}
	return -1
}

// sources are the network's rules as the policy wants them, each with its origin.
func (c *Config) sources(tree *node) (list []policy.Source) {
	if d := tree.get("network", "default"); d != nil {
		list = append(list, policy.Source{Default: c.Network.Default, Origin: d.at.Origin()})
	}
	for i, g := range c.Network.Groups {
		at := tree.get("network", "groups", i).at.Origin()
		if n := len(list); n > 0 && list[n-1].Origin == at && list[n-1].Default == "" {
			list[n-1].Groups = append(list[n-1].Groups, g)
		} else {
			list = append(list, policy.Source{Groups: []string{g}, Origin: at})
		}
	}
	if len(c.Network.Rules) > 0 {
		s := policy.Source{Rules: make([]policy.RuleSource, len(c.Network.Rules))}
		for i, r := range c.Network.Rules {
			r.Origin = tree.get("network", "rules", i).at.Origin()
			s.Rules[i] = r
		}
		list = append(list, s)
	}
	return list
}
