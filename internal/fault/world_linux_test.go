package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// patience bounds every wait. It is long because machines can be busy; whoever uses it
// up has found a hang.
const patience = 2 * time.Minute

// A world is one user's coffer, told apart from everybody else's by its directory: the
// binary, the store and the workspace are all below it.
type world struct {
	*testbed.Bed
}

// each runs a test as every user, in a world of its own.
func each(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	t.Parallel()
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		own := filepath.Join(b.Dir, "bin", "coffer")
		if err := os.Mkdir(filepath.Dir(own), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(b.Coffer, own); err != nil {
			t.Fatal(err)
		}
		b.Coffer = own
		test(t, world{b})
	})
}

func (w world) store() string { return filepath.Join(w.Home, ".local/share/coffer/sandboxes") }

// A result is how a command ended.
type result struct {
	out, err string
	code     int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.code, r.out, r.err)
}

// coffer runs a command to its end.
func (w world) coffer(t testing.TB, args ...string) result {
	t.Helper()
	return finish(t, w.Command(args...))
}

// finish runs a command, or waits for one that was started with start.
func finish(t testing.TB, c *exec.Cmd) result {
	t.Helper()
	if c.Process == nil {
		start(t, c)
	}
	late := time.AfterFunc(patience, func() { c.Process.Kill() })
	err := c.Wait()
	if !late.Stop() {
		t.Fatalf("%v does not end\n%s", c.Args, output(c))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", c.Args, err)
	}
	r := output(c)
	if r.code = c.ProcessState.ExitCode(); r.code < 0 {
		r.code = 128 + int(c.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return r
}

// start starts a command whose output is kept. Files, not pipes: whoever holds a pipe
// open keeps Wait from returning.
func start(t testing.TB, c *exec.Cmd) {
	t.Helper()
	if c.Stdout == nil {
		c.Stdout = kept(t)
	}
	if c.Stderr == nil {
		c.Stderr = kept(t)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
}

func kept(t testing.TB) *os.File {
	t.Helper()
	f, err := os.CreateTemp("", "coffer-fault-")
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(f.Name())
	t.Cleanup(func() { f.Close() })
	return f
}

func output(c *exec.Cmd) (r result) {
	r.out, r.err = content(c.Stdout), content(c.Stderr)
	return r
}

// content is what was written so far to what start made.
func content(w any) string {
	f, ok := w.(*os.File)
	if !ok {
		return ""
	}
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, info.Size())
	n, _ := f.ReadAt(b, 0)
	return string(b[:n])
}

// must wants a command to succeed and returns what it printed.
func (w world) must(t testing.TB, args ...string) string {
	t.Helper()
	r := w.coffer(t, args...)
	if r.code != 0 {
		t.Fatalf("coffer %s: %s", strings.Join(args, " "), r)
	}
	return r.out
}

// refuses wants a command to fail as coffer's failures do: exit code, and a sentence
// that says all of the words.
func (w world) refuses(t testing.TB, code int, words []string, args ...string) {
	t.Helper()
	refused(t, w.coffer(t, args...), code, words)
}

func refused(t testing.TB, r result, code int, words []string) {
	t.Helper()
	if r.code != code || !strings.HasPrefix(r.err, "coffer: ") || strings.Contains(r.err, "goroutine ") {
		t.Errorf("%s\nwant exit code %d and a sentence", r, code)
	}
	for _, word := range words {
		if !strings.Contains(r.err, word) {
			t.Errorf("%s\nwant an error that says %q", r, word)
		}
	}
}

// script runs a shell script of the host's root in a mount namespace of its own, for
// what only root can set up; `user` in it runs a command as the world's user.
func (w world) script(t testing.TB, text string) result {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	testbed.Needs(t, "unshare", "setpriv")
	user := fmt.Sprintf(`user() { setpriv --reuid %d --regid %d --clear-groups "$@"; }`, w.UID, w.UID)
	c := exec.Command("unshare", "--mount", "sh", "-euc", user+"\n"+text)
	c.Dir, c.Env = w.Work, append(w.Env(), "UID_="+strconv.Itoa(w.UID), "STORE="+w.store())
	return finish(t, c)
}

// eventually polls until there is no error.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// running lists the names of the sandboxes that run, with a program or without.
func (w world) running(t testing.TB) []string { return w.inState(t, "running", "idle") }

func (w world) inState(t testing.TB, states ...string) (names []string) {
	t.Helper()
	for line := range strings.SplitSeq(w.must(t, "list"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && slices.Contains(states, f[2]) {
			names = append(names, f[1])
		}
	}
	return names
}

// A process is one of the host's.
type process struct {
	pid, parent int
	args        []string
	ours        bool // of the world
}

func (p process) String() string { return fmt.Sprintf("%d %v", p.pid, p.args) }

func (p process) is(args ...string) bool {
	return len(p.args) >= len(args) && strings.Join(p.args[:len(args)], " ") == strings.Join(args, " ")
}

// processes are those of the world: they run its binary, or have its home in their
// environment, as every program in its sandboxes does.
func (w world) processes() (all []process) {
	for _, p := range w.everybody() {
		if p.ours {
			all = append(all, p)
		}
	}
	return all
}

func (w world) everybody() (all []process) {
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", d.Name())
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent …, and a name may contain anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" {
			continue // dead; who started it has not looked yet
		}
		p := process{pid: pid}
		p.parent, _ = strconv.Atoi(fields[1])
		args, _ := os.ReadFile(dir + "/cmdline")
		p.args = strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
		exe, _ := os.Readlink(dir + "/exe")
		env, _ := os.ReadFile(dir + "/environ")
		p.ours = strings.HasPrefix(exe, w.Dir+"/") || bytes.Contains(env, []byte("HOME="+w.Home+"\x00"))
		all = append(all, p)
	}
	return all
}

// supervisors and guests of the world.
func (w world) supervisors() (all []process) {
	for _, p := range w.processes() {
		if p.is("coffer", "supervise") {
			all = append(all, p)
		}
	}
	return all
}

// guests are found by their parents as well: not everybody may look into them.
func (w world) guests() (all []process) {
	every := w.everybody()
	ours := map[int]bool{}
	for _, p := range every {
		ours[p.pid] = p.ours
	}
	for _, p := range every {
		if p.is("coffer-guest") && (p.ours || ours[p.parent]) {
			all = append(all, p)
		}
	}
	return all
}

// alone waits until no process of the world is left.
func (w world) alone(t testing.TB) {
	t.Helper()
	eventually(t, func() error {
		if left := w.processes(); len(left) > 0 {
			return fmt.Errorf("processes are left: %v", left)
		}
		return nil
	})
}

// tidy wants nothing left on the host of sandboxes that do not run, once a command has
// put right what the dead left. It may take a few: a killed process holds its locks
// until the kernel is done with it, and for that long it is not dead.
func (w world) tidy(t testing.TB) {
	t.Helper()
	eventually(t, func() error {
		w.must(t, "list")
		if left := w.leftovers(t); len(left) > 0 {
			return fmt.Errorf("left behind: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

func (w world) leftovers(t testing.TB) (left []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(" "+w.Dir)) {
		left = append(left, "a mount on the host")
	}
	entries, _ := os.ReadDir(w.store())
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == ".lock":
		case name[0] == '.', name[0] == 't':
			left = append(left, name+" in the store")
		default:
			if exists(filepath.Join(w.store(), name, "control.sock")) {
				left = append(left, "the socket of "+name)
			}
		}
	}
	if exists(filepath.Join(w.Work, ".git")) {
		left = append(left, "an empty .git in the workspace")
	}
	return append(left, w.cgroups()...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// cgroups are the groups of sandboxes whose record names this world's workspace, or
// that have no record any more but were seen by it.
func (w world) cgroups() (left []string) {
	ids, err := os.ReadFile(filepath.Join(w.Dir, "ids"))
	if err != nil {
		return nil
	}
	for id := range strings.FieldsSeq(string(ids)) {
		for _, pattern := range []string{"/sys/fs/cgroup/*/coffer-", "/sys/fs/cgroup/*/*/coffer-", "/sys/fs/cgroup/*/*/*/coffer-"} {
			found, _ := filepath.Glob(pattern + id + "*")
			left = append(left, found...)
		}
	}
	return left
}

// note remembers the ids of all sandboxes there are now, for cgroups.
func (w world) note() {
	entries, _ := os.ReadDir(w.store())
	f, err := os.OpenFile(filepath.Join(w.Dir, "ids"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	for _, e := range entries {
		id := strings.TrimPrefix(strings.TrimPrefix(e.Name(), ".new-"), ".gone-")
		if len(id) >= 8 {
			fmt.Fprintln(f, id[:8])
		}
	}
}
