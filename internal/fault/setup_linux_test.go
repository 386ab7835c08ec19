package fault

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command that sets up a sandbox is killed. What is left is not taken for one that is
// set up.
func TestKilledSetup(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		setup := filepath.Join(w.Work, ".coffer", "setup.sh")
		if err := os.MkdirAll(filepath.Dir(setup), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(setup, []byte("touch begun; while ! test -e go; do sleep 0.05; done\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{filepath.Dir(setup), setup} {
			if err := os.Chown(p, w.UID, w.UID); err != nil {
				t.Fatal(err)
			}
		}
		begun := filepath.Join(w.Work, "begun")
		c := w.Command("exec", "--create", "--workspace", "direct", "--name", "half", "--", "true")
		start(t, c)
		eventually(t, func() error { _, err := os.Stat(begun); return err })
		if r := w.coffer(t, "exec", "-m", "half", "--", "true"); r.code == 0 || !strings.Contains(r.err, "is not set up") {
			t.Errorf("during the setup: %s", r)
		}
		c.Process.Kill()
		c.Wait()
		r := w.coffer(t, "exec", "-m", "half", "--", "true")
		if r.code == 0 || !strings.Contains(r.err, "is not set up") || !strings.Contains(r.err, "coffer rm --force half") {
			t.Errorf("after the kill: %s", r)
		}
		w.must(t, "rm", "--force", "half")
		// One that is let finish can be used.
		if err := os.WriteFile(filepath.Join(w.Work, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		w.must(t, "exec", "--create", "--workspace", "direct", "--name", "half", "--", "true")
		w.must(t, "exec", "-m", "half", "--", "true")
		w.must(t, "rm", "--force", "half")
	})
}
