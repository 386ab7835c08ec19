package policy

import written "github.com/cofferhq/coffer/internal/rules"

// A Source is a policy as people write it, and a RuleSource one of its rules.
type (
	Source     = written.Source
	RuleSource = written.RuleSource
)

// Modes are the names of the built-in policies.
var Modes = written.Modes
