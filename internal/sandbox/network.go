package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/safepath"
)

// A Network says what programs inside may reach.
type Network struct {
	// Mode is a built-in policy, one of rules.Modes. Empty, as in records of the
	// time before there was a network, is none.
	Mode string `json:"mode,omitempty"`
	// Rules are what config files add to it, as they were when the user agreed to
	// them: what is in the workspace now is the sandbox's word.
	Rules []policy.Source `json:"rules,omitempty"`
	// HostPorts are the ports of the host's loopback interface that programs may reach.
	HostPorts []HostPort `json:"host_ports,omitempty"`
	// Max is the mode that the administrator allows at most. With none and standard
	// the user's live changes cannot go beyond it.
	Max string `json:"max,omitempty"`
}

// A HostPort is a port of the host as programs inside see it.
type HostPort struct {
	Inside  uint16 `json:"inside"`
	Outside uint16 `json:"outside"`
}

// None says that there is no network at all. With rules there is one, although its mode
// allows nothing by itself.
func (n Network) None() bool {
	return (n.Mode == "" || n.Mode == "none") && len(n.Rules) == 0 && len(n.HostPorts) == 0
}

// Inspects says that TLS is looked into somewhere, so that programs have to trust the
// sandbox's own authority.
func (n Network) Inspects() bool {
	return slices.ContainsFunc(n.Rules, func(s policy.Source) bool {
		return slices.ContainsFunc(s.Rules, policy.RuleSource.Inspects)
	})
}

// Authority is the file of the sandbox's certificate authority and its key.
func (sb *Sandbox) Authority() string { return filepath.Join(sb.dir, "authority.pem") }

// Describe is the mode, in a word.
func (n Network) Describe() string {
	switch {
	case n.None():
		return "none"
	case n.Mode == "" || n.Mode == "none":
		return "rules" // and nothing else
	}
	return n.Mode
}

func (n Network) validate() error {
	for _, p := range n.HostPorts {
		if p.Inside == 0 || p.Outside == 0 {
			return errors.New("a port of the host cannot be 0")
		}
	}
	// The rules are compiled when the sandbox starts: every command reads records.
	if n.Mode != "" && !slices.Contains(policy.Modes, n.Mode) {
		return fmt.Errorf("network mode %q is none of %s", n.Mode, strings.Join(policy.Modes, ", "))
	}
	return nil
}

// liveName is the file of the rules that the user made while the sandbox ran.
const liveName = "policy.json"

// maxLive bounds it.
const maxLive = 4 << 20

type liveRules struct {
	Version int                 `json:"version"`
	Rules   []policy.RuleSource `json:"rules"`
}

// LiveRules are the rules that the user made for this sandbox with 'coffer policy'.
func (sb *Sandbox) LiveRules() (policy.Source, error) {
	live := policy.Source{Grants: true, Origin: "coffer policy"}
	path := filepath.Join(sb.dir, liveName)
	data, err := safepath.ReadOwn(path, maxLive)
	if errors.Is(err, fs.ErrNotExist) {
		return live, nil
	}
	if err != nil {
		return live, err
	}
	var file liveRules
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return live, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if file.Version != 1 {
		return live, fmt.Errorf("%s was %w (version %d)", path, ErrNewer, file.Version)
	}
	live.Rules = file.Rules
	return live, nil
}

// SaveLiveRules replaces them. The sandbox's lock or its supervisor keeps two from
// doing so at once.
func (sb *Sandbox) SaveLiveRules(live []policy.RuleSource) error {
	path := filepath.Join(sb.dir, liveName)
	if len(live) == 0 {
		return ignoreMissing(os.Remove(path))
	}
	data, err := json.MarshalIndent(liveRules{1, live}, "", "  ")
	if err != nil {
		return err
	}
	return sb.writeFile(path, append(data, '\n'))
}
