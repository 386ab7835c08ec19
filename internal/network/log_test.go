package network

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// TestNoLogNoChange: without a log that can be opened, the rules stay.
func TestNoLogNoChange(t *testing.T) {
	store, err := sandbox.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}, Network: sandbox.Network{Mode: "standard"}})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := os.WriteFile(audit.Dir(sb.Dir()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := changeAtRest(sb, Change{Do: "allow", Rules: []policy.RuleSource{RuleFor("example.com", true)}}); err == nil || ui.HintOf(err) == "" {
		t.Errorf("the rules were changed: %v", err)
	}
	if live, _ := sb.LiveRules(); len(live.Rules) != 0 {
		t.Errorf("%+v", live)
	}
}
