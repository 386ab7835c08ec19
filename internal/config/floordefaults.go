package config

import "strings"

// What nobody asked for need not be refused: a built-in default that is beyond the floor is
// lowered to it. A file or a flag that asks for more is told that it cannot have it.

// lower is the tree of built-in defaults, as far as the floor lets them be.
func (f *Floor) lower(tree *node) *node {
	if f == nil {
		return tree
	}
	own := newTable(tree.at)
	if at := f.tree.get("network", "max"); at != nil && rank(tree.get("network", "mode").text(), networkOrder...) > rank(f.Network.Max, networkOrder...) {
		network := newTable(at.at)
		network.fields["mode"] = &node{value: f.Network.Max, at: at.at, key: at.key}
		own.fields["network"] = network
	}
	// A wall that a config cannot name is another engine's, and this one is refused.
	if at := f.tree.get("isolation"); at != nil && f.Isolation == "container" {
		own.fields["isolation"] = &node{value: f.Isolation, at: at.at, key: at.key}
	}
	return merge(tree, own)
}

// note is what the floor has to do with a value of the merged config: it set it, raises it, or
// refuses it.
func (f *Floor) note(path string, n *node) string {
	if f == nil {
		return ""
	}
	if n.at.File == f.path {
		return ": the administrator's floor"
	}
	var at *node
	does := "refuses"
	switch {
	case path == "network.mode" && rank(n.text(), networkOrder...) > rank(f.Network.Max, networkOrder...):
		at = f.tree.get("network", "max")
	case path == "network.default" && n.text() != "deny" && (rank(f.Network.Max, networkOrder...) < 2 || f.Network.Max == "ask" && n.text() == "allow"):
		at = f.tree.get("network", "max")
	case path == "nesting" && n.value == true && f.ForbidNesting:
		at = f.tree.get("forbid_nesting")
	case path == "network.host_ports" && len(n.items) > 0 && f.Network.ForbidHostPorts:
		at = f.tree.get("network", "forbid_host_ports")
	case path == "sandbox" && n.text() == "off" && len(f.tree.fields) > 0:
		at = f.tree.get(f.tree.names()[0])
	case path == "limits.keep_free" && kept(n.text()) < kept(f.Limits.KeepFree):
		at = f.tree.get("limits", "keep_free")
		if kept(n.text()) > 0 {
			does = "raises"
		}
	}
	if at == nil {
		return ""
	}
	return ", which the administrator's floor " + does + ": " + strings.TrimSpace(printable(at.at.Origin()))
}
