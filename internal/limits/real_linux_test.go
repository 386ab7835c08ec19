package limits

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// These tests use the cgroups of the host they run on: v1 or v2, whichever it
// lets us have. Without any they are skipped with the reason doctor would give.

func needs(t *testing.T, support ...Support) {
	t.Helper()
	for _, s := range support {
		if s.Mechanism != CgroupV1 && s.Mechanism != CgroupV2 {
			t.Skipf("no cgroup for this limit here, only %q: %s", s.Mechanism, s.Reason)
		}
	}
}

// What tests are skipped for is tried by hand: where a group for a limit can be made below our
// own, Probe says so.
func TestProbe(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	h := Probe()
	for controller, s := range map[string]Support{"memory": h.Memory, "pids": h.Pids, "cpu": h.CPUs} {
		for line := range strings.Lines(string(own)) {
			parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
			dir := filepath.Join("/sys/fs/cgroup", parts[1], parts[2])
			known := strings.Split(parts[1], ",") // of version 1
			if parts[1] == "" {
				known = words(dir, "cgroup.subtree_control")
			}
			hand := filepath.Join(dir, fmt.Sprintf("coffer.by-hand-%d", os.Getpid()))
			if !slices.Contains(known, controller) || os.Mkdir(hand, 0o755) != nil {
				continue
			}
			must(t, os.Remove(hand))
			if s.Mechanism != CgroupV1 && s.Mechanism != CgroupV2 {
				t.Errorf("%s: %+v, and yet a group can be made in %s", controller, s, dir)
			}
		}
	}
}

// group prepares limits and checks that Close leaves nothing of them.
func group(t *testing.T, l Limits) *Group {
	t.Helper()
	name := fmt.Sprintf("test-%d-%s", os.Getpid(), t.Name())
	g, err := Prepare(name, l)
	must(t, err)
	t.Cleanup(func() {
		must(t, g.Close())
		for _, d := range g.dirs {
			if exists(d.path, "") {
				t.Errorf("%s is left", d.path)
			}
		}
	})
	return g
}

func TestRealMemory(t *testing.T) {
	needs(t, Probe().Memory)
	g := group(t, Limits{Memory: 64 << 20})
	within := startChild(t, "alloc 1000000")
	must(t, g.Add(within.Process.Pid))
	if st := within.run(); !st.Exited() || st.ExitStatus() != 0 || g.OOMKilled() {
		t.Errorf("within the limit: status %#x, killed %v", st, g.OOMKilled())
	}
	bystander := startChild(t, "wait")
	must(t, g.Add(bystander.Process.Pid))
	greedy := startChild(t, "alloc 268435456")
	must(t, g.Add(greedy.Process.Pid))
	if st := greedy.run(); !st.Signaled() || st.Signal() != unix.SIGKILL {
		t.Errorf("over the limit: status %#x, want SIGKILL", st)
	}
	if !g.OOMKilled() {
		t.Error("the group does not know")
	}
	if st := bystander.run(); st.ExitStatus() != 0 {
		t.Errorf("another process of the sandbox went along: %#x", st)
	}
	must(t, g.Close())
	if !g.OOMKilled() {
		t.Error("forgotten after Close")
	}
}

func TestRealPids(t *testing.T) {
	needs(t, Probe().Pids)
	g := group(t, Limits{Pids: 20})
	c := startChild(t, "fork")
	must(t, g.Add(c.Process.Pid))
	if st := c.run(); st.ExitStatus() != exitLimited {
		t.Errorf("status %#x, want fork to fail with EAGAIN", st)
	}
	if len(g.dirs) > 0 {
		if left, err := pids(g.dirs[0].path); err != nil || len(left) == 0 || len(left) > 20 {
			t.Errorf("%d processes left, %v; want 1 to 20 for Close to kill", len(left), err)
		}
	}
}

func TestRealCPUs(t *testing.T) {
	needs(t, Probe().CPUs)
	g := group(t, Limits{CPUs: 0.02}) // less than it gets on the busiest host
	quota := words(g.dirs[0].path, "cpu.max")
	if !g.dirs[0].v2 {
		quota = append(words(g.dirs[0].path, "cpu.cfs_quota_us"), words(g.dirs[0].path, "cpu.cfs_period_us")...)
	}
	if got := strings.Join(quota, " "); got != "2000 100000" {
		t.Errorf("quota and period are %q", got)
	}
	c := startChild(t, "burn")
	must(t, g.Add(c.Process.Pid))
	start := time.Now()
	c.run()
	wall, used := time.Since(start), c.ProcessState.UserTime()+c.ProcessState.SystemTime()
	if keyed(g.dirs[0].path, "cpu.stat", "nr_throttled") == 0 {
		t.Error("never throttled")
	}
	// Fifty times is what the quota gives; a busy host only makes it more.
	if wall < 2*used {
		t.Errorf("used %v of processor time in %v", used, wall)
	}
}

// All limits at once, and a sandbox that still runs: Close ends it.
func TestRealCloseKills(t *testing.T) {
	h := Probe()
	needs(t, h.Memory, h.Pids, h.CPUs)
	g := group(t, Limits{Memory: 64 << 20, Pids: 30, CPUs: 1})
	c := startChild(t, "wait")
	must(t, g.Add(c.Process.Pid))
	must(t, g.Close())
	_ = c.Wait()
	if st := c.ProcessState.Sys().(syscall.WaitStatus); !st.Signaled() || st.Signal() != unix.SIGKILL {
		t.Errorf("status %#x, want SIGKILL", st)
	}
	if err := g.Add(c.Process.Pid); err == nil {
		t.Error("a closed group takes processes")
	}
}

// The owner is killed; the sandbox's process lives on in the group. Sweep
// leaves it alone for as long as the owner or the caller says it is alive.
func TestRealSweep(t *testing.T) {
	h := Probe()
	needs(t, h.Memory, h.Pids)
	name := fmt.Sprintf("test-%d-%s", os.Getpid(), t.Name())
	hold, stdin, err := os.Pipe()
	must(t, err)
	defer stdin.Close()
	ended, alive, err := os.Pipe()
	must(t, err)
	defer ended.Close()
	said, stdout, err := os.Pipe()
	must(t, err)
	defer said.Close()
	owner := startChild(t, "owner "+name, func(c *exec.Cmd) { c.Stdout, c.ExtraFiles = stdout, []*os.File{hold, alive} })
	for _, f := range []*os.File{hold, alive, stdout} {
		f.Close()
	}
	if line := readLine(said); line != "ready" {
		t.Fatalf("owner: %s", line)
	}
	dirs := func() (found []string) {
		tr, err := thisHost().tree()
		must(t, err)
		for _, base := range []string{baseOf(tr.unified), tr.v1["memory"], tr.v1["pids"]} {
			if base != "" && exists(base, groupPrefix+name) {
				found = append(found, filepath.Join(base, groupPrefix+name))
			}
		}
		return found
	}
	othersOnly := func(n string) bool { return n != name } // never sweep what is not this test's
	before := len(dirs())
	Sweep(othersOnly)
	if before == 0 || len(dirs()) != before {
		t.Errorf("swept under a living owner: %d groups, then %d", before, len(dirs()))
	}
	must(t, owner.Process.Kill())
	_ = owner.Wait()
	Sweep(func(string) bool { return true })
	if len(dirs()) != before {
		t.Error("swept although alive")
	}
	Sweep(othersOnly)
	if left := dirs(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := io.ReadAll(ended); err != nil { // ends with the sandbox's process
		t.Error(err)
	}
}

// Another coffer sweeps all the time, and knows nothing of our sandbox: it must
// not take the group from under us, not even before it is locked.
func TestRealSweepRace(t *testing.T) {
	needs(t, Probe().Pids)
	name := fmt.Sprintf("test-%d-%s", os.Getpid(), t.Name())
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				Sweep(func(n string) bool { return n != name })
			}
		}
	}()
	for range 200 {
		g, err := Prepare(name, Limits{Pids: 7})
		if err != nil {
			t.Error(err)
			break
		}
		if got := words(g.dirs[0].path, "pids.max"); len(got) != 1 || got[0] != "7" {
			t.Errorf("pids.max is %v", got)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}

// The no-internal-processes rule of the real kernel, with whatever controller
// v2 has here: a process alone in its group makes room, one in company does
// not. Root only, because it needs a group that is not the root.
func TestRealRoom(t *testing.T) {
	tr, err := thisHost().tree()
	must(t, err)
	if tr.unified == "" {
		t.Skip("no cgroup v2 here")
	}
	controllers := words(tr.unified, "cgroup.controllers")
	var controller string
	for _, c := range controllers {
		if c == "memory" || c == "hugetlb" || c == "io" { // not the threaded ones, which have laxer rules
			controller = c
		}
	}
	root := words(tr.unified, "cgroup.subtree_control")
	if controller == "" || unix.Access(tr.unified, unix.W_OK) != nil {
		t.Skipf("no v2 controller to hand on in %s (%v), or it is not writable", tr.unified, controllers)
	}
	if _, isRoot := groupType(tr.unified); !isRoot {
		t.Skip("not in the root group; moving the test itself would disturb its siblings")
	}
	enable := filepath.Join(tr.unified, "cgroup.subtree_control")
	must(t, writeControl(enable, "+"+controller))
	base := filepath.Join(tr.unified, fmt.Sprintf("coffer.test-%d", os.Getpid()))
	must(t, os.Mkdir(base, 0o755))
	t.Cleanup(func() {
		must(t, thisHost().destroy(base))
		if !strings.Contains(strings.Join(root, " "), controller) {
			must(t, writeControl(enable, "-"+controller))
		}
	})

	company := startChild(t, "wait")
	must(t, writeControl(filepath.Join(base, "cgroup.procs"), fmt.Sprint(company.Process.Pid)))
	for _, alone := range []bool{false, true} {
		if alone {
			company.run()
		}
		var out strings.Builder
		c := startChild(t, "room "+controller, func(c *exec.Cmd) { c.Stdout = &out })
		must(t, writeControl(filepath.Join(base, "cgroup.procs"), fmt.Sprint(c.Process.Pid)))
		st := c.run()
		enabled := strings.Contains(strings.Join(words(base, "cgroup.subtree_control"), " "), controller)
		if ok := st.ExitStatus() == 0; ok != alone || enabled != alone || exists(base, leafName) != alone {
			t.Errorf("alone %v: status %#x, enabled %v, %s", alone, st, enabled, out.String())
		}
	}
}

// What an ordinary user gets on this host.
func TestUnprivileged(t *testing.T) {
	if !testbed.AsOrdinary(t) {
		return
	}
	h := Probe()
	if h.Memory.Available() {
		t.Skipf("this user may use %s", h.Memory.Mechanism)
	}
	var no *UnavailableError
	for limit, l := range map[string]Limits{"memory": {Memory: 64 << 20}, "cpus": {CPUs: 1}} {
		g, err := Prepare("unprivileged", l)
		if g != nil || !errors.As(err, &no) || no.Limit != limit || no.Fix == "" {
			t.Errorf("%s: %v", limit, err)
		}
		t.Log(err)
	}
	if h.Pids.Mechanism != ByRlimit {
		t.Fatalf("pids: %+v", h.Pids)
	}
	g, err := Prepare("unprivileged", Limits{Pids: 20})
	must(t, err)
	r := g.Rlimits()
	if len(r) != 1 || r[0] != (Rlimit{unix.RLIMIT_NPROC, 20, 20}) {
		t.Fatalf("rlimits %v", r)
	}
	// In force inside a user namespace, where nothing else counts. A PID
	// namespace ends what the child forked together with it.
	c := startChild(t, fmt.Sprint("fork ", r[0].Soft), func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		}
	})
	if st := c.run(); st.ExitStatus() != exitLimited {
		t.Errorf("status %#x, want fork to fail with EAGAIN", st)
	}
}

// A sandbox with a group can be frozen and goes on, and ends when it is killed while it is frozen.
func TestRealFreeze(t *testing.T) {
	needs(t, Probe().Pids)
	g := group(t, Limits{Pids: 20})
	dir := ""
	for _, d := range g.dirs {
		if d.v2 && exists(d.path, "cgroup.freeze") {
			dir = d.path
		}
	}
	if dir == "" {
		t.Skip("no cgroup v2 can be made here")
	}
	c := exec.Command("sleep", "600")
	must(t, c.Start())
	defer c.Wait()
	defer c.Process.Kill()
	must(t, g.Add(c.Process.Pid))
	for _, yes := range []bool{true, false, true} {
		if !g.Freeze(yes) {
			t.Fatal("it cannot be frozen")
		}
		want := int64(0)
		if yes {
			want = 1
		}
		for end := time.Now().Add(time.Minute); keyed(dir, "cgroup.events", "frozen") != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("frozen is not %d", want)
			}
		}
	}
	must(t, g.Close()) // which kills it
	if g.Freeze(true) {
		t.Error("a group that is closed was frozen")
	}
	if err := c.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if (*Group)(nil).Freeze(true) {
		t.Error("nothing was frozen")
	}
}
