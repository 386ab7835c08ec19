package supervisor

import (
	"os"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// TestNoLogNoStart: a sandbox whose log cannot be opened does not start.
func TestNoLogNoStart(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		s, _ := testSupervisor(t, sandbox.Record{Ephemeral: ephemeral, Network: sandbox.Network{Mode: "standard"}})
		sb := s.Sandbox
		if err := os.RemoveAll(audit.Dir(sb.Dir())); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(audit.Dir(sb.Dir()), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(t.Context(), nil, sb); err == nil || !strings.Contains(err.Error(), "audit log") || ui.HintOf(err) == "" {
			t.Errorf("start: %v", err)
		}
	}
}
