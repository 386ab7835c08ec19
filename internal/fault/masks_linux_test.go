package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// A directory is renamed on the host while a program stands in it, in a copy-on-write workspace.
// What comes into it, and into its directories, is hidden from that program. If the sandbox has
// written to them earlier, they go by their old names there.
func TestMaskedDirectoryRenamed(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for _, written := range []string{":", ": >old/own; : >old/sub/own"} {
			secret(t, w, "old/first")
			secret(t, w, "old/sub/first")
			w.must(t, "exec", "--create", "--workspace", "cow", "--name", "r", "--", "sh", "-c", written)
			w.must(t, "stop", "r")
			standAndRead(t, w)
			w.must(t, "rm", "--force", "r")
			for _, name := range []string{"newer", "begun.key", "new.key", "newer.key"} {
				if err := os.RemoveAll(filepath.Join(w.Work, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// standAndRead has a program stand in a directory that is renamed twice, and read there.
func standAndRead(t *testing.T, w world) {
	t.Helper()
	c := w.Command("exec", "-m", "r", "--", "sh", "-c", `cd old; ls sub; echo ready; read go; cat plain sub/plain || exit 3
for f in .env sub/.env sub/made/.env; do
	n=0; while cat "$f" 2>/dev/null; do n=$((n+1)); [ $n -lt 3000 ] || exit 4; sleep 0.02; done
done; exit 7`)
	tell, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, c)
	eventually(t, func() error {
		if !strings.Contains(content(c.Stdout), "ready") {
			return fmt.Errorf("it is not ready: %s", output(c))
		}
		return nil
	})
	// A file that is hidden shows that the watch has begun, or has heard of what was before.
	heard := func(name string) {
		secret(t, w, name)
		eventually(t, func() error {
			if r := w.coffer(t, "exec", "-m", "r", "--", "cat", name); !strings.Contains(r.err, "Permission denied") {
				return fmt.Errorf("%s is not hidden: %s", name, r)
			}
			return nil
		})
	}
	heard("begun.key")
	for _, move := range [][2]string{{"old", "new"}, {"new", "newer"}} {
		if err := os.Rename(filepath.Join(w.Work, move[0]), filepath.Join(w.Work, move[1])); err != nil {
			t.Fatal(err)
		}
		heard(move[1] + ".key")
	}
	for _, name := range []string{".env", "sub/.env", "sub/made/.env", "plain", "sub/plain"} {
		secret(t, w, "newer/"+name)
	}
	fmt.Fprintln(tell, "go") // a name that was looked for in vain would stay unseen
	if r := finish(t, c); r.code != 7 {
		t.Error(r)
	}
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
