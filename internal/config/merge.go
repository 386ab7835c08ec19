package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
)

// Merging is by the table in docs/config.md, which the tests go through row by row and key by
// key. Every value keeps its place, which is its origin.

// merge lays one tree over another. Neither is changed.
func merge(lower, upper *node) *node { return mergeTables(lower, upper, "", false) }

func mergeTables(lower, upper *node, path string, named bool) *node {
	out := newTable(upper.at)
	out.key = upper.key
	maps.Copy(out.fields, lower.fields)
	// In a table with named entries, a list, such as the command of a daemon, is replaced.
	named = named || slices.Contains([]string{"mounts", "daemons", "agents", "jail.args"}, path)
	for name, up := range upper.fields {
		low, below := out.fields[name], join(path, name)
		switch {
		case low != nil && low.isTable() && up.isTable():
			up = mergeTables(low, up, below, named)
		case low == nil || !low.isList() || !up.isList():
		case below == "network.rules":
			up = mergeRules(low, up)
		case !named:
			up = mergeLists(low, up, below)
		}
		out.fields[name] = up
	}
	return out
}

// mergeLists appends the items that the lower list does not have. Ports are the same if their number
// is; the order of masks matters, so they are always appended.
func mergeLists(lower, upper *node, path string) *node {
	out := &node{at: upper.at, key: upper.key, items: slices.Clone(lower.items)}
	for _, item := range upper.items {
		number := portNumber(item, path)
		i := slices.IndexFunc(out.items, func(old *node) bool {
			return old.value == item.value || number != "" && portNumber(old, path) == number
		})
		switch {
		case i < 0 || path == "masks":
			out.items = append(out.items, item)
		case number != "" && portText(out.items[i]) != portText(item):
			out.items[i] = item
		}
	}
	return out
}

// portNumber identifies an entry of a list of ports: by the number inside for a port of the host,
// outside for a published one, "" for any free one and for other lists.
func portNumber(n *node, path string) string {
	if path != "network.host_ports" && path != "network.publish" {
		return ""
	}
	number, _, _ := strings.Cut(portText(n), ":")
	return number
}

// portText is a port as text: in TOML it may be a number. N:N is N.
func portText(n *node) string {
	if n, whole := n.value.(int64); whole {
		return strconv.FormatInt(n, 10)
	}
	if a, b, _ := strings.Cut(n.text(), ":"); a == b {
		return a
	}
	return n.text()
}

func mergeRules(lower, upper *node) *node {
	out := &node{at: upper.at, key: upper.key, items: slices.Clone(lower.items)}
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
		return n.text()
	}
	return ""
}

func findRule(rules *node, name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(rules.items, func(r *node) bool { return ruleName(r) == name })
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
