package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
)

// Merging is by the table in docs/config.md, which the tests go through row by row and key by
// key. Every value keeps its place, which is its origin.

// merge lays one tree over another. Neither is changed.
func merge(lower, upper *node) *node { return mergeTables(lower, upper, "", false) }

// hasEntries are the tables of named entries. In one, a list is replaced: who writes the
// command of a daemon means this one.
func hasEntries(path string) bool {
	return path == "mounts" || path == "daemons" || path == "agents" || path == "jail.args"
}

func mergeTables(lower, upper *node, path string, named bool) *node {
	out := &node{kind: table, at: upper.at, key: upper.key, fields: map[string]*node{}}
	for _, name := range lower.order {
		out.set(name, lower.fields[name])
	}
	named = named || hasEntries(path)
	for _, name := range upper.order {
		up, low := upper.fields[name], out.fields[name]
		if low == nil || low.kind != up.kind {
			out.set(name, up)
			continue
		}
		below := join(path, name)
		switch {
		case up.kind == table:
			out.set(name, mergeTables(low, up, below, named))
		case up.kind == list && below == "network.rules":
			out.set(name, mergeRules(low, up))
		case up.kind == list && !named:
			out.set(name, mergeLists(low, up, below))
		default:
			out.set(name, up)
		}
	}
	return out
}

// mergeLists adds the items that are not there yet. An item of the lower file that is named
// again stays the lower file's; but for a port it is the number that counts, and a line about
// masks means something where it stands.
func mergeLists(lower, upper *node, path string) *node {
	out := &node{kind: list, at: upper.at, key: upper.key, items: slices.Clone(lower.items)}
	for _, item := range upper.items {
		i := slices.IndexFunc(out.items, item.equal)
		switch number := portNumber(item, path); {
		case path == "masks":
			i = -1
		case number != "":
			i = slices.IndexFunc(out.items, func(old *node) bool { return portNumber(old, path) == number })
			if i >= 0 && portText(out.items[i]) != portText(item) {
				out.items[i] = item
			}
		}
		if i < 0 {
			out.items = append(out.items, item)
		}
	}
	return out
}

// portNumber is what an entry of a list of ports is known by: the number inside for a port of
// the host, the number outside for one that leads inside. "" is for others, and for a port
// that may have any number.
func portNumber(n *node, path string) string {
	if path != "network.host_ports" && path != "network.publish" {
		return ""
	}
	number, _, _ := strings.Cut(portText(n), ":")
	return number
}

// portText is a port as text: in TOML it may be a number. N:N is N.
func portText(n *node) string {
	if n.kind == whole {
		return strconv.FormatInt(n.whole, 10)
	}
	if a, b, _ := strings.Cut(n.text, ":"); a == b {
		return a
	}
	return n.text
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
