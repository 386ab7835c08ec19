package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/forward"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// TestNoLogNoStart: a sandbox whose log cannot be opened does not start, and nothing
// about it is changed; a throw-away's network ends.
func TestNoLogNoStart(t *testing.T) {
	s, _ := newSupervisor(t, sandbox.Record{Network: sandbox.Network{Mode: "standard"}})
	sb := s.Sandbox
	if err := os.WriteFile(audit.Dir(sb.Dir()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), nil, sb); err == nil || !strings.Contains(err.Error(), "audit log") || ui.HintOf(err) == "" {
		t.Errorf("start: %v", err)
	}
	if _, err := changeAtRest(sb, Change{Do: "allow", Rules: []policy.RuleSource{RuleFor("example.com", true)}}); err == nil {
		t.Error("the rules were changed")
	}
	if live, _ := sb.LiveRules(); len(live.Rules) != 0 {
		t.Errorf("%+v", live)
	}
	sb.Ephemeral = true
	var failed []error
	j, err := openJournal(sb, func(err error) { failed = append(failed, err) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		j.add(audit.Event{Kind: audit.KindFlow})
	}
	if j.close(); len(failed) != 1 {
		t.Errorf("%d failures were told", len(failed))
	}
}

// TestForwardAtRestIsLogged: the log has forwards of a sandbox that does not run, too.
func TestForwardAtRestIsLogged(t *testing.T) {
	store, err := sandbox.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}})
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	for _, w := range []wire.Forwarding{{Add: []wire.Forward{{Inside: 3000}}}, {ClearAll: true}} {
		if _, _, err := forward.Change(t.Context(), sb, w, LogOnce); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	err = audit.Read(audit.Dir(sb.Dir()), audit.Filter{Kinds: []string{audit.KindPort}}, func(r audit.Record) error {
		said = append(said, r.Detail)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(said, []string{"forwarded to port 3000 inside", "no longer forwarded to port 3000 inside"}) {
		t.Errorf("%q", said)
	}
}
