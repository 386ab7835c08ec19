package jail

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// withNames is a stage on which names are taken.
func withNames(t *testing.T, test func(t *testing.T, s *stage)) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		test(t, s)
	})
}

// isKept says how much is kept, for all contexts.
func (s *stage) isKept(t *testing.T) int {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(s.names(), "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// All names are taken, and none can be had by making, removing or renaming; git does not see them,
// and what a program must be able to read at its start reads as empty.
func TestAllNames(t *testing.T) {
	withNames(t, func(t *testing.T, s *stage) {
		s.repository(t, s.Work)
		// Somebody who is called as one that would stumble over a directory.
		program := s.write(t, filepath.Join(s.Home, "opencode"), "#!/bin/sh\nexec sh \"$@\"\n")
		os.Chmod(program, 0o755)
		tries := `for n in ` + strings.Join(settingNames, " ") + `; do
			mkdir $n && echo $n: mkdir
			mkdir -p $n/x && echo $n: mkdir -p
			echo x >new; mv -T new $n && echo $n: mv
			ln -sfT /etc/passwd $n && echo $n: ln
			mv -T $n other && echo $n: mv away
			rm -rf $n && echo $n: rm
			chmod 777 $n && echo $n: chmod
			test -c $n || { (echo x >$n) && echo $n: write; }
		done 2>/dev/null; rm -f new`
		for _, shell := range []string{"sh", program} {
			if r := s.run(t, s.policy(shell, "-c", tries)); r.out != "" {
				t.Errorf("%s: this works: %s", shell, r.out)
			}
			r := s.run(t, s.policy(shell, "-c", "git status --short; git add -A; git status --short; ls .claude .vscode"))
			if r.code != 0 || strings.Contains(r.out, "?") || strings.Contains(r.out, "A ") {
				t.Errorf("%s: %v", shell, r)
			}
			s.unclean(t, s.Work)
		}
		if r := s.run(t, s.policy(program, "-c", "cat opencode.json opencode.jsonc")); r.code != 0 || r.out != "" {
			t.Error(r)
		}
		// Copies are made as ever.
		if r := s.shell(t, Namespaces, "cp -a . /tmp/copy && ls -A /tmp/copy | wc -l"); r.code != 0 {
			t.Error(r)
		}
	})
}

// What takes names is kept, and the next jail has the same. The program can write to nothing of it.
func TestKept(t *testing.T) {
	withNames(t, func(t *testing.T, s *stage) {
		s.repository(t, s.Work)
		number := "stat -c %i .claude .vscode .envrc .git/commondir"
		first := s.shell(t, Namespaces, number)
		if first.code != 0 || s.isKept(t) < len(settingNames) {
			t.Fatalf("%d are kept: %v", s.isKept(t), first)
		}
		kept := s.isKept(t)
		if again := s.shell(t, Namespaces, number+"; echo x >"+s.names()+"/x; for d in "+s.names()+"/*; do mkdir $d/x; done"); again.out != first.out || s.isKept(t) != kept {
			t.Errorf("%d are kept, and %v", s.isKept(t), again)
		}
		s.unclean(t, s.Work)
		// One that is not empty is not used, and stays.
		all, _ := filepath.Glob(filepath.Join(s.names(), "*", ".claude"))
		s.write(t, filepath.Join(all[0], "settings.json"), "x")
		if r := s.shell(t, Namespaces, "ls .claude"); r.out != "" || r.code != 0 {
			t.Error(r)
		}
		if _, err := os.Lstat(filepath.Join(all[0], "settings.json")); err != nil {
			t.Error(err)
		}
		s.unclean(t, s.Work)
		// Nor is what was changed.
		where := filepath.Dir(all[0])
		os.Remove(filepath.Join(where, "commondir"))
		s.write(t, filepath.Join(where, "commondir"), "/evil\n")
		unix.Chmod(filepath.Join(where, "commondir"), 0o444)
		unix.Chmod(filepath.Join(where, ".envrc"), 0o777)
		if r := s.shell(t, Namespaces, "cat .git/commondir; stat -c %a .envrc"); r.out != ".\n1755\n" {
			t.Error(r)
		}
		s.unclean(t, s.Work)
		files := "stat -c %i .vscode .git/commondir"
		if r := s.shell(t, Namespaces, files); r.code != 0 || r.out != s.shell(t, Namespaces, files).out {
			t.Errorf("it is not kept again: %v", r)
		}
		// Neither is one of another user, or of another kind.
		os.RemoveAll(where)
		s.write(t, filepath.Join(where, ".pi"), "x")
		os.Symlink(s.Out, filepath.Join(where, ".idea"))
		s.write(t, filepath.Join(s.Home, "secret"), ".\n")
		os.Symlink(filepath.Join(s.Home, "secret"), filepath.Join(where, "commondir"))
		if r := s.shell(t, Namespaces, "ls .pi .idea && ! touch .idea/x"); r.code != 0 {
			t.Error(r)
		}
		s.unclean(t, s.Work)
	})
}

// What the user puts into a directory that takes a name stays, as one like any other; so it does if
// that was left behind by a killed coffer, also of an earlier version.
func TestUsedMeanwhile(t *testing.T) {
	withNames(t, func(t *testing.T, s *stage) {
		c, _ := s.started(t, s.policy("sh", "-c", "echo runs; exec sleep 1000"))
		own := filepath.Join(s.Work, ".vscode", "tasks.json")
		if r := finish(t, s.Program("sh", "-c", "echo mine >"+own)); r.code != 0 {
			t.Fatal(r)
		}
		c.Process.Signal(unix.SIGTERM)
		c.Wait()
		info, err := os.Lstat(filepath.Dir(own))
		if b, _ := os.ReadFile(own); string(b) != "mine\n" || err != nil || info.Mode() != os.ModeDir|0o755 {
			t.Errorf("%q, %v, %v", b, info, err)
		}
		s.unclean(t, s.Work)
		// What was left.
		for name, mode := range map[string]uint32{".idea": 0o1555, ".zed": 0o1755, ".pi": 0o1555} {
			dir := filepath.Join(s.Work, name)
			if name == ".pi" {
				s.write(t, filepath.Join(dir, "mine"), "x")
			} else if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			os.Chown(dir, s.UID, s.UID)
			unix.Chmod(dir, mode)
		}
		socket := filepath.Join(s.Work, "opencode.json")
		unix.Mknod(socket, unix.S_IFSOCK|0o1000, 0)
		os.Chown(socket, s.UID, s.UID)
		unix.Chmod(socket, 0o1000)
		if r := s.shell(t, Namespaces, "! touch .idea/x && ! touch .zed/x && ! touch .pi/mine && ! mv -T opencode.json x"); r.code != 0 {
			t.Error(r)
		}
		if _, err := os.Lstat(filepath.Join(s.Work, ".pi", "mine")); err != nil {
			t.Error(err)
		}
		s.unclean(t, s.Work)
		for _, name := range []string{".idea", ".zed", "opencode.json"} {
			if _, err := os.Lstat(filepath.Join(s.Work, name)); err == nil {
				t.Errorf("%s is still there", name)
			}
		}
	})
}

// Without a place to keep them, names are taken all the same, and nothing goes anywhere else.
func TestNowhereToKeep(t *testing.T) {
	withNames(t, func(t *testing.T, s *stage) {
		for what, prepare := range map[string]func(){
			"a link":       func() { os.Symlink(s.Out, s.names()) },
			"a file":       func() { os.WriteFile(s.names(), nil, 0o644) },
			"read-only":    func() { os.Mkdir(s.names(), 0o555); os.Chown(s.names(), s.UID, s.UID) },
			"for all":      func() { os.Mkdir(s.names(), 0o777); unix.Chmod(s.names(), 0o777); os.Chown(s.names(), s.UID, s.UID) },
			"another's":    func() { os.Mkdir(s.names(), 0o700); os.Chown(s.names(), s.UID+1, s.UID+1) },
			"not possible": func() { os.RemoveAll(filepath.Dir(s.names())); os.WriteFile(filepath.Dir(s.names()), nil, 0o644) },
		} {
			if what == "another's" && os.Getuid() != 0 {
				continue // only root can give it away
			}
			os.RemoveAll(filepath.Dir(s.names()))
			s.write(t, filepath.Join(filepath.Dir(s.names()), "x"), "")
			prepare()
			for range 2 {
				if r := s.shell(t, Namespaces, "! touch .claude/x"); r.code != 0 {
					t.Errorf("%s: %v", what, r)
				}
				s.unclean(t, s.Work)
			}
			if out, _ := os.ReadDir(s.Out); len(out) > 0 || s.isKept(t) > 0 && !(what == "read-only" && s.UID == 0) {
				t.Errorf("%s: something is kept: %v", what, out)
			}
		}
		// In reach of the program there is none.
		s.write(t, filepath.Join(s.Work, "x"), "")
		w := s.policy("true")
		w.Names = filepath.Join(s.Work, "names")
		if r := s.run(t, w); r.code != 0 {
			t.Error(r)
		}
		if _, err := os.Lstat(w.Names); err == nil {
			t.Error("it is in the context")
		}
	})
}

// Of many contexts those are forgotten that were not used for longest.
func TestManyContexts(t *testing.T) {
	store := filepath.Join(t.TempDir(), "names")
	var contexts []string
	for i := range mostContexts + 3 {
		dir := t.TempDir()
		contexts = append(contexts, dir)
		for range 2 {
			n, err := take(dir, []rootfs.Place{{Path: filepath.Join(dir, ".vscode")}}, store)
			if err != nil {
				t.Fatal(err)
			}
			n.release()
		}
		os.Chtimes(newest(t, store), time.Time{}, time.Unix(int64(1000+i), 0))
	}
	list, _ := os.ReadDir(store)
	if len(list) != mostContexts {
		t.Errorf("of %d contexts %d are kept", len(contexts), len(list))
	}
	for i, dir := range contexts {
		f, _ := os.Open(dir)
		k := openKept(store, int(f.Fd()), false)
		if (k != nowhere) != (i >= 3) {
			t.Errorf("context %d is kept: %v", i, k != nowhere)
		}
		k.close()
		f.Close()
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("left in context %d: %v", i, entries)
		}
	}
}

func newest(t *testing.T, store string) (path string) {
	t.Helper()
	list, _ := os.ReadDir(store)
	var last time.Time
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.ModTime().After(last) {
			last, path = info.ModTime(), filepath.Join(store, e.Name())
		}
	}
	return path
}

// However many jails there are at once, in one context and in several, and however they end, nothing
// is left when one has ended by itself, and nobody could make a name.
func TestNamesAtOnce(t *testing.T) {
	withNames(t, func(t *testing.T, s *stage) {
		other := filepath.Join(s.Home, "other")
		s.write(t, filepath.Join(other, "x"), "")
		var all sync.WaitGroup
		for i := range 4 {
			w := s.policy("sh", "-c", "touch .claude/x && echo made; mkdir .vscode && echo made; rm -f .mcp.json && echo made; sleep 0.0"+fmt.Sprint(i))
			if i%2 == 1 {
				w.Context, w.Dir = other, other
			}
			all.Go(func() {
				for n := range 12 {
					c := s.command(t, w)
					var out strings.Builder
					c.Stdout = &out
					if err := c.Start(); err != nil {
						t.Error(err)
						return
					}
					if n%3 == i%3 {
						time.Sleep(time.Duration(n) * 2 * time.Millisecond)
						_ = c.Process.Signal(syscall.SIGKILL)
					}
					_ = c.Wait()
					if out.Len() > 0 {
						t.Errorf("somebody made a name: %q", &out)
					}
				}
			})
		}
		all.Wait()
		for _, dir := range []string{s.Work, other} {
			s.settles(t, dir)
			if out, err := exec.Command("ls", "-A", dir).Output(); err != nil || strings.Contains(string(out), ".") {
				t.Errorf("left: %s", out)
			}
		}
		if n := s.isKept(t); n > 2*(len(settingNames)+1) {
			t.Errorf("%d are kept", n)
		}
	})
}
