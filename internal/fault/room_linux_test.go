package fault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A disk that programs inside fill: they wait before it is full.

// filler is a program that fills a small disk until there is a file stop: nearly half of it fast, and
// then so slowly that a busy machine has seconds to see it.
const filler = `i=0 n=1000000 pause=0.005; until [ -e stop ]; do i=$((i+1)); [ $i -lt 28 ] || n=200000 pause=0.02
head -c $n /dev/zero >f$i || exit 9; sleep $pause; done; exit 7`

// onDisk is a command of coffer whose workspace is a small disk. That is seen by itself and its
// sandbox alone, and by others as its current directory.
func (w world) onDisk(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return w.withDisk(t, ".", args...)
}

// withDisk is the same with the disk in a directory of the workspace.
func (w world) withDisk(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	testbed.Needs(t, "unshare", "setpriv")
	script := fmt.Sprintf(`mount -t tmpfs -o size=64m,mode=755,uid=%d,gid=%d none "$PWD/%s"; cd "$PWD"; exec setpriv --reuid %d --regid %d --clear-groups "$@"`, w.UID, w.UID, dir, w.UID, w.UID)
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

// awaits waits until the programs of a sandbox do.
func (w world) awaits(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if list := w.must(t, "list"); !strings.Contains(list, " waiting ") {
			return errors.New("nobody waits:\n" + list)
		}
		return nil
	})
}

// hideMany makes files that have to be hidden, many at once, and waits until they are: programs that
// wait for room do so still.
func (w world) hideMany(t *testing.T, dir string) {
	t.Helper()
	const many = 1000
	for i := range many {
		name := fmt.Sprintf("%s/.env.%d", dir, i)
		if err := os.WriteFile(name, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		if n := strings.Count(w.must(t, "masks", "-m", "s"), ".env."); n < many {
			return fmt.Errorf("%d of %d are hidden", n, many)
		}
		return nil
	})
}

// Programs wait before the disk is full, and go on when there is room. Meanwhile no other one starts.
func TestRoom(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		c := w.onDisk(t, "exec", "--create", "--name", "s", "--workspace", "direct", "--", "sh", "-c", filler)
		start(t, c)
		w.awaits(t)
		if n := free(t, c); n < 8<<20 {
			t.Errorf("%d bytes are free", n)
		}
		if out := w.must(t, "show", "s"); !strings.Contains(out, "the programs of s wait, because less than ") {
			t.Error(out)
		}
		w.refuses(t, 125, []string{"the programs of s wait, because less than "}, "exec", "-m", "s", "--", "true")
		dir := place(c)
		w.hideMany(t, dir)
		w.refuses(t, 125, []string{"the programs of s wait, because less than "}, "exec", "-m", "s", "--", "true")
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
		if r.code != 7 || strings.Count(r.err, "all programs wait, because less than ") != 1 || strings.Count(r.err, "all programs go on") != 1 {
			t.Error(r)
		}
		if out := w.must(t, "audit", "s", "--kind", "limit"); !strings.Contains(out, "all programs wait") || !strings.Contains(out, "all programs go on") {
			t.Error(out)
		}
		w.must(t, "remove", "--force", "s")
	})
}

// A disk that is mounted further down in the workspace is kept from filling up, too.
func TestRoomBelow(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		if err := os.Mkdir(filepath.Join(w.Work, "disk"), 0o755); err != nil {
			t.Fatal(err)
		}
		c := w.withDisk(t, "disk", "run", "--", "sh", "-c", "cd disk; "+filler)
		start(t, c)
		w.awaits(t)
		c.Process.Signal(unix.SIGINT)
		if r := finish(t, c); r.code == 9 || !strings.Contains(r.err, "all programs wait, because less than ") || !strings.Contains(r.err, "/disk: ") {
			t.Error(r)
		}
	})
}

// While they wait, everything that ends a sandbox or a program does.
func TestRoomEnds(t *testing.T) {
	signal := func(s syscall.Signal) func(*testing.T, world, *exec.Cmd) {
		return func(_ *testing.T, _ world, c *exec.Cmd) { c.Process.Signal(s) }
	}
	does := func(args ...string) func(*testing.T, world, *exec.Cmd) {
		return func(t *testing.T, w world, _ *exec.Cmd) { w.must(t, args...) }
	}
	run := []string{"run", "--name", "s"}
	create := []string{"exec", "--create", "--name", "s", "--workspace", "direct"}
	for name, how := range map[string]struct {
		args []string
		end  func(*testing.T, world, *exec.Cmd)
	}{
		"interrupted":         {run, signal(unix.SIGINT)},
		"terminated":          {run, signal(unix.SIGTERM)},
		"killed":              {run, signal(unix.SIGKILL)},
		"stopped":             {create, does("stop", "s")},
		"stopped by force":    {create, does("stop", "--force", "s")},
		"removed":             {create, does("remove", "--force", "s")},
		"exec interrupted":    {create, signal(unix.SIGINT)},
		"exec killed":         {create, signal(unix.SIGKILL)},
		"time":                {append(run, "--timeout", "30s"), nil},
		"supervisor killed":   {create, func(t *testing.T, w world, _ *exec.Cmd) { unix.Kill(w.supervisors()[0].pid, unix.SIGKILL) }},
		"interrupted as root": {append(run, "--root"), signal(unix.SIGINT)},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w world) {
				c := w.onDisk(t, append(how.args, "--", "sh", "-c", filler)...)
				start(t, c)
				w.awaits(t)
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

// On a terminal, Ctrl-C ends the program, though it cannot hear it.
func TestRoomCtrlC(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		ours, theirs, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		var mu sync.Mutex
		var seen bytes.Buffer
		go io.Copy(lockedWriter{&mu, &seen}, ours)
		c := w.onDisk(t, "run", "--", "sh", "-c", filler)
		c.Stdin, c.Stdout, c.Stderr = theirs, theirs, theirs
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		start(t, c)
		theirs.Close()
		eventually(t, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !bytes.Contains(seen.Bytes(), []byte("all programs wait")) {
				return fmt.Errorf("it was not said: %q", seen.String())
			}
			return nil
		})
		ours.Write([]byte{3})
		if r := finish(t, c); r.code != 130 {
			t.Error(r)
		}
		w.alone(t)
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}
