package fault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// A disk that programs inside fill.

// filler is a program that fills a small disk until there is a file stop: nearly half of it fast, and
// then so slowly that a busy machine has seconds to see it.
const filler = `i=0 n=1000000 pause=0.005; until [ -e stop ]; do i=$((i+1)); [ $i -lt 28 ] || n=200000 pause=0.05
head -c $n /dev/zero >f$i || exit 9; sleep $pause; done; exit 7`

// onDisk is a command of coffer whose workspace is a small disk. That is seen by itself and its
// sandbox alone, and by others as its current directory.
func (w world) onDisk(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	testbed.Needs(t, "unshare", "setpriv")
	script := fmt.Sprintf(`mount -t tmpfs -o size=64m,mode=755,uid=%d,gid=%d none "$PWD"; cd "$PWD"; exec setpriv --reuid %d --regid %d --clear-groups "$@"`, w.UID, w.UID, w.UID, w.UID)
	c := exec.Command("unshare", append([]string{"--mount", "sh", "-euc", script, "sh", w.Coffer}, args...)...)
	c.Dir, c.Env = w.Work, w.Env()
	return c
}

// place is the small disk of a command that runs.
func place(c *exec.Cmd) string { return filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "cwd") }

func free(t *testing.T, c *exec.Cmd) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(place(c), &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// freezes says whether a sandbox with limits has a cgroup here by which it can be frozen.
func (w world) freezes() bool {
	return w.UID == 0 && limits.Probe().CPUs.Available()
}

// awaitFrozen waits until a sandbox is frozen.
func (w world) awaitFrozen(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if list := w.must(t, "list"); !strings.Contains(list, " frozen ") {
			return errors.New("nothing is frozen:\n" + list)
		}
		return nil
	})
}

// grouped is a sandbox that has a cgroup, where it can have one.
var grouped = []string{"exec", "--create", "--name", "s", "--workspace", "direct", "--pids", "500"}

// A sandbox with a cgroup is frozen before the disk is full, and goes on when there is room. Meanwhile
// no other program starts.
func TestFullDiskFreezes(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		if !w.freezes() {
			t.Skip("no cgroup to freeze with")
		}
		c := w.onDisk(t, append(grouped, "--", "sh", "-c", filler)...)
		start(t, c)
		w.awaitFrozen(t)
		if n := free(t, c); n < 1<<20 {
			t.Errorf("%d bytes are free", n)
		}
		if out := w.must(t, "show", "s"); !strings.Contains(out, "sandbox s is frozen, because less than ") {
			t.Error(out)
		}
		w.refuses(t, 125, []string{"sandbox s is frozen, because less than "}, "exec", "-m", "s", "--", "true")
		dir := place(c)
		touched, err := os.Create(dir + "/stop")
		if err != nil {
			t.Fatal(err)
		}
		touched.Close()
		all, _ := filepath.Glob(dir + "/f*")
		for _, f := range all {
			os.Truncate(f, 0)
		}
		r := finish(t, c)
		if r.code != 7 || strings.Count(r.err, "is frozen, because less than ") != 1 || strings.Count(r.err, "sandbox s goes on") != 1 {
			t.Error(r)
		}
		if out := w.must(t, "audit", "s", "--kind", "limit"); !strings.Contains(out, "is frozen") || !strings.Contains(out, "goes on") {
			t.Error(out)
		}
		w.must(t, "remove", "--force", "s")
	})
}

// Of a sandbox without a cgroup the user is told, and its programs go on.
func TestFullDiskNotice(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		r := finish(t, w.onDisk(t, "run", "--", "sh", "-c", filler))
		if r.code != 9 || strings.Count(r.err, ": make room, or end the sandbox with 'coffer stop ") != 1 {
			t.Error(r)
		}
	})
}

// While a sandbox is frozen, everything that ends it does.
func TestFullDiskEnds(t *testing.T) {
	does := func(args ...string) func(*testing.T, world, *exec.Cmd) {
		return func(t *testing.T, w world, _ *exec.Cmd) { w.must(t, args...) }
	}
	run := []string{"run", "--name", "s", "--pids", "500"}
	for name, how := range map[string]struct {
		args []string
		end  func(*testing.T, world, *exec.Cmd)
	}{
		"killed":            {run, func(_ *testing.T, _ world, c *exec.Cmd) { c.Process.Kill() }},
		"stopped":           {grouped, does("stop", "s")},
		"stopped by force":  {grouped, does("stop", "--force", "s")},
		"removed":           {grouped, does("remove", "--force", "s")},
		"run stopped":       {run, does("stop", "s")},
		"time":              {append(run, "--timeout", "30s"), nil},
		"supervisor killed": {grouped, func(t *testing.T, w world, _ *exec.Cmd) { unix.Kill(w.supervisors()[0].pid, unix.SIGKILL) }},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w world) {
				if !w.freezes() {
					t.Skip("no cgroup to freeze with")
				}
				c := w.onDisk(t, append(how.args, "--", "sh", "-c", filler)...)
				start(t, c)
				w.awaitFrozen(t)
				if how.end != nil {
					how.end(t, w, c)
				}
				if r := finish(t, c); r.code == 0 || r.code == 7 || r.code == 9 {
					t.Error(r)
				}
				w.coffer(t, "remove", "--force", "s") // if there is one
				w.alone(t)
				w.tidy(t)
			})
		})
	}
}
