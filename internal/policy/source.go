package policy

import (
	"slices"
	"time"
)

// Source is a policy as people write it: the [network] table of a config file, a
// built-in mode, or the changes a user made to a running sandbox.
type Source struct {
	// Default is what happens when no rule matches: "deny", "ask" or "allow". Empty
	// keeps what the layer below says, and deny if none says anything.
	Default string `toml:"default" json:"default,omitempty"`
	// Groups are the built-in groups that are allowed as a whole.
	Groups []string     `toml:"groups" json:"groups,omitempty"`
	Rules  []RuleSource `toml:"rules" json:"rules,omitempty"`

	// Grants marks the layer of live changes: its allow rules are the user's answers
	// to questions, so they beat ask rules. Nothing beats a deny rule.
	Grants bool `toml:"-" json:"grants,omitempty"`
	// Origin says where the layer comes from, for decisions made by its default or
	// its groups: "coffer.toml", "built-in standard".
	Origin string `toml:"-" json:"origin,omitempty"`
}

// RuleSource is one rule as people write it: lists of targets, and conditions that hold
// for all of them.
type RuleSource struct {
	// Name is shown when the rule decides, and is what another file changes it by.
	Name string `toml:"name" json:"name,omitempty"`
	// Allow are targets that can be reached; see ParseTarget for how they are written.
	Allow []string `toml:"allow" json:"allow,omitempty"`
	// Deny are targets that cannot be reached, whatever other rules say.
	Deny []string `toml:"deny" json:"deny,omitempty"`
	// Ask are targets for which you are asked each time, unless you answer for longer.
	Ask []string `toml:"ask" json:"ask,omitempty"`

	// Protocol is "tcp", "udp", "tls" or "http". UDP is allowed only where it is named.
	Protocol string `toml:"protocol" json:"protocol,omitempty"`

	// Methods narrow the rule to HTTP requests with one of these methods, in plain text and
	// in TLS, which the gateway then looks into; with protocol "http" or "tls" to one of them.
	Methods []string `toml:"methods" json:"methods,omitempty"`
	// Paths narrow the rule to HTTP requests for one of these paths, as methods does. A *
	// stands for anything but a slash, and ** for any number of whole segments.
	Paths []string `toml:"paths" json:"paths,omitempty"`
	// Inspect has the gateway look into TLS, and hold every request against the rules.
	Inspect bool `toml:"inspect" json:"inspect,omitempty"`
	// TLS can be "pass": it is not looked into, whatever other rules want, as for programs
	// that accept certain certificates only.
	TLS string `toml:"tls" json:"tls,omitempty"`

	// MaxUpload bounds the bytes that are sent to each host: "10MB".
	MaxUpload string `toml:"max_upload" json:"max_upload,omitempty"`
	// MaxDownload bounds the bytes that come from each host.
	MaxDownload string `toml:"max_download" json:"max_download,omitempty"`

	// Enabled can be set to false: the rule is checked but not in force.
	Enabled *bool     `toml:"enabled" json:"enabled,omitempty"`
	Origin  string    `toml:"-" json:"origin,omitempty"` // "coffer.toml:12", filled by the reader
	Expires time.Time `toml:"-" json:"expires,omitzero"` // zero: never
}

// Inspects says whether the gateway has to look into TLS for the rule.
func (r RuleSource) Inspects() bool {
	switch r.Protocol {
	case "", TLS.String():
		return (r.Inspect || len(r.Methods)+len(r.Paths) > 0) && (r.Enabled == nil || *r.Enabled)
	}
	return false
}

// Modes are the names of the built-in policies.
var Modes = []string{"none", "standard", "ask", "open"}

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
