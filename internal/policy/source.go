package policy

import "time"

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

// RuleSource is one rule as people write it. Allow, Deny and Ask are lists of targets,
// see [ParseTarget]; what the other fields say holds for all of them.
type RuleSource struct {
	Name  string   `toml:"name" json:"name,omitempty"` // shown in decisions
	Allow []string `toml:"allow" json:"allow,omitempty"`
	Deny  []string `toml:"deny" json:"deny,omitempty"`
	Ask   []string `toml:"ask" json:"ask,omitempty"`

	Protocol string `toml:"protocol" json:"protocol,omitempty"` // "tcp", "udp", "tls", "http"

	// Methods and Paths narrow the rule to some plain-text HTTP requests. In paths *
	// stands for anything but a slash, and ** for any number of whole segments.
	Methods []string `toml:"methods" json:"methods,omitempty"`
	Paths   []string `toml:"paths" json:"paths,omitempty"`

	// MaxUpload and MaxDownload bound the bytes per destination host: "10MB".
	MaxUpload   string `toml:"max_upload" json:"max_upload,omitempty"`
	MaxDownload string `toml:"max_download" json:"max_download,omitempty"`

	Enabled *bool     `toml:"enabled" json:"enabled,omitempty"` // false: kept, checked, not in force
	Origin  string    `toml:"-" json:"origin,omitempty"`        // "coffer.toml:12", filled by the reader
	Expires time.Time `toml:"-" json:"expires,omitzero"`        // zero: never
}
