package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A thousand files are hidden, and each of them is.
func TestManyMasks(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		const many = 1000
		for i := range many {
			secret(t, w, fmt.Sprintf("d%d/.env", i))
		}
		w.must(t, "run", "--", "sh", "-c", "for f in d*/.env; do if cat $f 2>/dev/null; then exit 1; fi; done")
		w.must(t, "run", "--workspace", "cow", "--", "sh", "-c", "for f in d*/.env; do if cat $f 2>/dev/null; then exit 1; fi; done")
		for i := range many {
			if b, err := os.ReadFile(filepath.Join(w.Work, fmt.Sprintf("d%d/.env", i))); err != nil || string(b) != "secret" {
				t.Fatalf("%q, %v", b, err)
			}
		}
	})
}

// A hidden file is removed on the host, with the directory that it is in, and comes back.
func TestMaskedFileRemoved(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		secret(t, w, "dir/.env")
		w.must(t, "exec", "--create", "--name", "m", "--", "sh", "-c", "test -e dir/.env && ! cat dir/.env")
		for range 3 {
			if err := os.RemoveAll(filepath.Join(w.Work, "dir")); err != nil {
				t.Fatal(err)
			}
			w.must(t, "exec", "-m", "m", "--", "sh", "-c", "! test -e dir")
			secret(t, w, "dir/.env")
			w.must(t, "exec", "-m", "m", "--", "sh", "-c", "n=0; while cat dir/.env >/dev/null 2>&1; do n=$((n+1)); test $n -lt 2000 || exit 1; sleep 0.05; done; test -e dir/.env")
		}
		w.must(t, "rm", "--force", "m")
	})
}

// secret makes a file of the user's that is hidden.
func secret(t *testing.T, w world, name string) {
	t.Helper()
	at := filepath.Join(w.Work, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Dir(at), at} {
		if err := os.Chown(p, w.UID, w.UID); err != nil {
			t.Fatal(err)
		}
	}
}
