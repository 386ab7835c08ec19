package fault

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Disks that are full or read-only, and files that are not what they were.

// On a full disk nothing new can be made, which is said, and nothing old is lost.
func TestStoreFull(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		r := w.script(t, `
			data=$(dirname "$(dirname "$STORE")")
			user mkdir -p "$data"
			mount -t tmpfs -o size=2m,mode=755,uid=$UID_,gid=$UID_ none "$data"
			user coffer exec --create --name old -- sh -c 'echo kept >~/file'
			user coffer stop old
			user sh -c 'cat /dev/zero >"$1/fill" || true' sh "$data" 2>/dev/null
			for command in 'run -- true' 'exec --create --name new -- true'; do
				user coffer $command 2>"$HOME/err" && echo "works on a full disk: $command"
				echo "$? $(cat "$HOME/err")"
			done
			echo "listed: $(user coffer list -q | wc -l)"
			rm "$data/fill"
			user coffer exec -m old -- sh -c 'cat ~/file'
			user coffer exec -m old -- sh -c 'echo more >~/more; cat ~/more'
			user coffer run -- echo well
			user coffer stop old
			user coffer list -q | wc -l
			ls -A "$STORE" | grep -c -E '^\.(new|gone)|^t' || true
		`)
		if r.code != 0 {
			t.Fatal(r)
		}
		if n := strings.Count(r.out, "no space left on device\nhint: free some space"); n != 2 {
			t.Errorf("%d of 2 commands said why they failed: %s", n, r)
		}
		if !strings.HasSuffix(r.out, "\nlisted: 1\nkept\nmore\nwell\n1\n0\n") {
			t.Error(r)
		}
	})
}

// A program meets the full disk itself; coffer does not stand in its way.
func TestWorkspaceFull(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		r := w.script(t, `
			mount -t tmpfs -o size=64k,mode=755,uid=$UID_,gid=$UID_ none "$PWD"
			cd "$PWD"
			echo mine >file
			chown $UID_ file
			user sh -c 'cat /dev/zero >fill || true' 2>/dev/null
			user coffer run -- sh -c 'cat file; (cat /dev/zero >more) 2>&1 | grep -o "No space left"; exit 3' || echo "code $?"
			user coffer run --workspace cow -- sh -c 'rm fill; cat /dev/zero | head -c 100000 >big; cat file'
			user coffer apply || echo "apply $?"
			cat file
			ls -A
		`)
		if r.code != 0 || !strings.HasPrefix(r.out, "mine\nNo space left\ncode 3\nmine\n") {
			t.Error(r)
		}
		if strings.Contains(r.out, ".git") {
			t.Errorf("an empty .git is left: %s", r)
		}
	})
}

// A workspace in which no directory can be made at first must not get a repository
// from inside later.
func TestWorkspaceWithoutInodes(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		r := w.script(t, `
			mount -t tmpfs -o nr_inodes=8,mode=755,uid=$UID_,gid=$UID_ none "$PWD"
			cd "$PWD"
			for i in 1 2 3 4 5 6 7 8 9 10; do user touch junk$i 2>/dev/null || true; done
			user coffer run -- sh -c 'rm junk*; mkdir .git && mkdir .git/hooks && echo evil >.git/hooks/pre-commit' || echo "refused $?"
			if test -e .git/hooks/pre-commit; then echo "a hook was planted"; fi
		`)
		if r.code != 0 || strings.Contains(r.out, "planted") {
			t.Error(r)
		}
	})
}

// In a read-only store, sandboxes can be looked at.
func TestStoreReadOnly(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		w.must(t, "stop", "s")
		r := w.script(t, `
			mount --bind "$STORE" "$STORE"
			mount -o remount,bind,ro "$STORE"
			user coffer list
			user coffer show s >/dev/null
			for command in 'run -- true' 'exec -m s -- true' 'exec --create -- true' 'remove s'; do
				user coffer $command 2>"$HOME/err" && echo "works: $command"
				echo "$? $(cat "$HOME/err")"
			done
		`)
		if r.code != 0 || !strings.Contains(r.out, " s ") || strings.Contains(r.out, "works:") {
			t.Fatal(r)
		}
		if n := strings.Count(r.out, "125 coffer: "); n != 4 {
			t.Errorf("%d of 4 commands failed as they should: %s", n, r)
		}
		if n := strings.Count(r.out, "read-only file system"); n != 4 {
			t.Errorf("%d of 4 commands said why: %s", n, r)
		}
		if n := strings.Count(r.out, "hint: "); n != 4 {
			t.Errorf("%d of 4 commands had a hint: %s", n, r)
		}
	})
}

// A damaged record is reported by its name and hides nobody else.
func TestRecordDamaged(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "good", "--", "true")
		w.must(t, "exec", "--create", "--name", "bad", "--", "sh", "-c", "echo kept >~/file")
		w.must(t, "stop", "bad")
		id := strings.Split(w.must(t, "list", "--quiet"), "\n")[1]
		record := filepath.Join(w.store(), id, "sandbox.json")
		whole, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{
			"empty":     nil,
			"truncated": whole[:len(whole)/2],
			"zeros":     make([]byte, len(whole)),
			"null":      []byte("null"),
			"list":      []byte("[]"),
			"junk":      []byte("\x1b[2J\xff\xfe not json"),
			"newer":     bytes.Replace(whole, []byte(`"version": 7`), []byte(`"version": 99`), 1),
			"unknown":   bytes.Replace(whole, []byte(`"version": 7`), []byte(`"version": 2, "walls": false`), 1),
			"other id":  bytes.Replace(whole, []byte(id), []byte("aaaaaaaa"), 1),
			"relative":  bytes.Replace(whole, []byte(w.Work), []byte("relative"), 1),
			"huge":      append(bytes.Repeat([]byte(" "), 2<<20), whole...),
		} {
			t.Run(name, func(t *testing.T) {
				if err := os.WriteFile(record, content, 0o600); err != nil {
					t.Fatal(err)
				}
				r := w.coffer(t, "list")
				if !strings.Contains(r.out, " good ") || strings.Contains(r.out, " bad ") {
					t.Errorf("listed: %s", r)
				}
				refused(t, result{code: 125, err: r.err}, 125, []string{record})
				if strings.Contains(r.err, "\x1b") || !utf8.ValidString(r.err) {
					t.Errorf("the error is not fit for a terminal: %q", r.err)
				}
				w.answers(t, "good")
				w.works(t)
				w.refuses(t, 125, []string{record}, "exec", "-m", id, "--", "true")
				if b, err := os.ReadFile(record); err != nil || !bytes.Equal(b, content) {
					t.Errorf("the damaged record was touched: %q, %v", b, err)
				}
			})
		}
		// Nothing is lost: with the record back, so is the sandbox.
		if err := os.WriteFile(record, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := w.must(t, "exec", "-m", "bad", "--", "sh", "-c", "cat ~/file"); out != "kept\n" {
			t.Errorf("its file holds %q", out)
		}
		// Removing all removes all that can be.
		w.must(t, "stop", "--everywhere")
		if err := os.WriteFile(record, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.refuses(t, 125, []string{record}, "remove", "--everywhere", "--yes")
		if out := w.coffer(t, "list").out; strings.Contains(out, " good ") {
			t.Errorf("a damaged one kept 'remove --everywhere' from the others: %s", out)
		}
	})
}

// A store that others could write, or that is none, is refused with the way out.
func TestStorePermissions(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		w.must(t, "stop", "s")
		if err := os.Chmod(w.store(), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"run", "--", "true"}, {"list"}, {"exec", "-m", "s", "--", "true"}} {
			w.refuses(t, 125, []string{w.store(), "can be written by others", "hint: chmod 700 "}, args...)
		}
		os.Chmod(w.store(), 0o700)
		w.answers(t, "s")
		if os.Getuid() == 0 {
			os.Chown(w.store(), 12345, 12345)
			os.Chmod(w.store(), 0o755)
			w.refuses(t, 125, []string{w.store(), "belongs to uid 12345", "hint: "}, "run", "--", "true")
			os.Chown(w.store(), w.UID, w.UID)
			w.answers(t, "s")
		}
		w.must(t, "remove", "--force", "s")
		if err := os.RemoveAll(w.store()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.store(), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		w.refuses(t, 125, []string{w.store(), "not a directory", "hint: "}, "run", "--", "true")
		os.Remove(w.store())
		w.works(t)
	})
}

// The same for one that is closed for writing: its owner, inside too, can open it.
func TestWorkspaceClosed(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		if err := os.Chmod(w.Work, 0o555); err != nil {
			t.Fatal(err)
		}
		w.coffer(t, "run", "--", "sh", "-c", "chmod 755 .; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit")
		os.Chmod(w.Work, 0o755)
		if exists(filepath.Join(w.Work, ".git")) {
			t.Error("a repository was planted")
		}
	})
}
