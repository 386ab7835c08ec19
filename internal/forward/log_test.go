package forward

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

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
		if _, _, err := Change(t.Context(), sb, w); err != nil {
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
