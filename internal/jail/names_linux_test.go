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

// All names are taken, and none can be had by making, removing or renaming; git does not see them,
// and what a program must be able to read at its start reads as empty.
func TestAllNames(t *testing.T) {
	withNames(t, func(t *testing.T, s *stage) {
		s.repository(t, s.Work)
		// Somebody who is called as one that would stumble over a directory.
		program := s.write(t, filepath.Join(s.Home, "opencode"), "#!/bin/sh\nexec sh \"$@\"\n")
		os.Chmod(program, 0o755)
		tries := `for n in ` + strings.Join(settingNames(), " ") + `; do
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
		for name, mode := range map[string]uint32{".idea": 0o1755, ".zed": 0o1755, ".pi": 0o1555} {
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
	})
}
