package limits

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Alone in a delegated group: coffer moves to the leaf, the sandbox gets its
// own group with all limits, and nothing of it is left after Close.
func TestV2Alone(t *testing.T) {
	f, s := newFakeV2(t, "/u/scope", 100)
	f.process(101, 100) // a helper of ours
	f.setPids(filepath.Join(f.mount, "u/scope"), []int{100, 101})

	g, err := s.prepare("box", Limits{Memory: 64 << 20, Pids: 20, CPUs: 1.5})
	must(t, err)
	if got := f.read("u/scope/cgroup.procs"); got != "" {
		t.Errorf("processes left in our group: %q", got)
	}
	if got := f.read("u/scope", leafName, "cgroup.procs"); got != "100\n101" {
		t.Errorf("processes in the leaf: %q", got)
	}
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "0", "pids.max": "20", "cpu.max": "150000 100000",
	} {
		if got := f.read("u/scope/coffer-box", file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if r := g.Rlimits(); len(r) != 0 {
		t.Errorf("rlimits %v on top of a cgroup", r)
	}
	f.process(500, 100)
	must(t, g.Add(500))
	if got := f.read("u/scope/coffer-box/cgroup.procs"); got != "500" {
		t.Errorf("processes in the sandbox: %q", got)
	}

	// A second sandbox finds us in the leaf, and room beside it.
	g2, err := s.prepare("two", Limits{Memory: 64 << 20})
	must(t, err)
	must(t, g2.Close())

	must(t, g.Close()) // kills 500 by cgroup.kill
	if left := children(filepath.Join(f.mount, "u/scope")); len(left) != 1 || filepath.Base(left[0]) != leafName {
		t.Errorf("left behind: %v", left)
	}
}

// Somebody else is in the group: refuse, change nothing, say what to do.
func TestV2Shared(t *testing.T) {
	for name, stranger := range map[string]int{"another process": 77, "another PID namespace": 0} {
		t.Run(name, func(t *testing.T) {
			f, s := newFakeV2(t, "/u/scope", 100, stranger)
			s.euid = 1000
			_, err := s.prepare("box", Limits{Memory: 64 << 20})
			var no *UnavailableError
			if !errors.As(err, &no) || no.Limit != "memory" || !strings.Contains(no.Reason, "shares its cgroup") ||
				!strings.Contains(err.Error(), "systemd-run --user --scope -p Delegate=yes coffer") {
				t.Errorf("error: %v", err)
			}
			if left := children(filepath.Join(f.mount, "u/scope")); len(left) != 0 {
				t.Errorf("made %v all the same", left)
			}
			if h := s.probe(); h.Memory.Available() || h.CPUs.Fix == "" || h.Pids.Mechanism != ByRlimit {
				t.Errorf("probe: %+v", h)
			}
		})
	}
}

// The children have the controller already: nobody needs to move.
func TestV2AlreadyEnabled(t *testing.T) {
	f, s := newFakeV2(t, "/u/scope/"+leafName, 100, 77)
	g, err := s.prepare("box", Limits{Memory: 64 << 20})
	must(t, err)
	defer g.Close()
	if got := f.read("u/scope/coffer-box/memory.max"); got != "67108864" {
		t.Errorf("memory.max is %q", got)
	}
	if got := f.read("u/scope", leafName, "cgroup.procs"); got != "100\n77" {
		t.Errorf("processes moved: %q", got)
	}
}

// The root of all groups may keep its processes.
func TestV2Root(t *testing.T) {
	f, s := newFakeV2(t, "/", 100, 77)
	g, err := s.prepare("box", Limits{Pids: 9})
	must(t, err)
	if f.read("coffer-box/pids.max") != "9" || f.read("cgroup.procs") != "100\n77" {
		t.Error("not limited, or somebody moved")
	}
	must(t, g.Close())
	if left := children(f.mount); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The kernel refuses after we moved: move back, and leave no leaf.
func TestV2MovesBack(t *testing.T) {
	f, s := newFakeV2(t, "/u/scope", 100)
	f.fail["cgroup.subtree_control"] = unix.EBUSY
	_, err := s.prepare("box", Limits{Memory: 64 << 20})
	var no *UnavailableError
	if !errors.As(err, &no) || !errors.Is(err, unix.EBUSY) {
		t.Errorf("error: %v", err)
	}
	if got := f.read("u/scope/cgroup.procs"); got != "100" {
		t.Errorf("processes in our group: %q", got)
	}
	if left := children(filepath.Join(f.mount, "u/scope")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A limit that cannot be written leaves no group, and is no limit.
func TestV2FailedWrite(t *testing.T) {
	f, s := newFakeV2(t, "/", 100)
	f.fail["cpu.max"] = unix.EINVAL
	_, err := s.prepare("box", Limits{Memory: 64 << 20, CPUs: 2})
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("error: %v", err)
	}
	if left := children(f.mount); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestV2Unavailable(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(f *fakeV2, own string)
		want  string
	}{
		{"not ours", func(f *fakeV2, own string) { f.deny[own] = unix.EACCES }, "not delegated to uid 1000"},
		{"read-only", func(f *fakeV2, own string) { f.deny[own] = unix.EROFS }, "writable /sys/fs/cgroup"},
		{"procs not ours", func(f *fakeV2, own string) { f.deny[own+"/cgroup.procs"] = unix.EACCES }, "not delegated to uid 1000"},
		{"controllers not ours", func(f *fakeV2, own string) { f.deny[own+"/cgroup.subtree_control"] = unix.EACCES },
			"controllers of coffer's cgroup"},
		{"threaded", func(f *fakeV2, own string) { f.put(own+"/cgroup.type", "threaded\n") }, `type "threaded"`},
		{"controller missing", func(f *fakeV2, own string) { f.put(own+"/cgroup.controllers", "pids\n") }, "does not have it"},
		{"not mounted", func(f *fakeV2, _ string) { f.put(f.proc+"/self/mountinfo", "") }, "no cgroup hierarchy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, s := newFakeV2(t, "/u/scope", 100)
			s.euid = 1000
			tt.spoil(f, filepath.Join(f.mount, "u/scope"))
			_, err := s.prepare("box", Limits{Memory: 64 << 20, Pids: 5})
			var no *UnavailableError
			if !errors.As(err, &no) || !strings.Contains(err.Error(), tt.want) || no.Fix == "" {
				t.Errorf("error %v; want %q in it", err, tt.want)
			}
			if h := s.probe(); h.Memory.Available() || h.Memory.Reason != no.Reason || h.Memory.Fix != no.Fix {
				t.Errorf("probe says %+v, prepare %v", h.Memory, err)
			}
		})
	}
}

func TestV2OOMKilled(t *testing.T) {
	f, s := newFakeV2(t, "/", 100)
	g, err := s.prepare("box", Limits{Memory: 64 << 20, Pids: 5, CPUs: 1})
	must(t, err)
	if g.OOMKilled() {
		t.Error("killed before it began")
	}
	f.put(filepath.Join(f.mount, "coffer-box/memory.events"), "oom 3\noom_kill 1\noom_group_kill 0\n")
	if !g.OOMKilled() {
		t.Error("the group does not know of the kill")
	}
	must(t, g.Close())
	must(t, g.Close())
	if !g.OOMKilled() {
		t.Error("forgotten after Close")
	}
}

func TestNameInUse(t *testing.T) {
	f, s := newFakeV2(t, "/", 100)
	g, err := s.prepare("box", Limits{Pids: 5})
	must(t, err)
	if _, err := s.prepare("box", Limits{Pids: 7}); !errors.Is(err, errOwned) {
		t.Errorf("a second sandbox of the same name: %v", err)
	}
	s.sweep(func(string) bool { return false })
	if f.read("coffer-box/pids.max") != "5" {
		t.Error("the first one's limit is gone")
	}
	must(t, g.Close())
	// One that nobody holds makes way, with what is in it.
	must(t, f.mkdir(filepath.Join(f.mount, "coffer-box")))
	must(t, f.mkdir(filepath.Join(f.mount, "coffer-box/inner")))
	f.setPids(filepath.Join(f.mount, "coffer-box/inner"), []int{900})
	g, err = s.prepare("box", Limits{Pids: 7})
	must(t, err)
	must(t, g.Close())
	for _, bad := range []string{"", "a/b", "..\n", "../x"} {
		if _, err := s.prepare(bad, Limits{Pids: 7}); err == nil {
			t.Errorf("name %q was accepted", bad)
		}
	}
}

func TestSweepSelects(t *testing.T) {
	f, s := newFakeV2(t, "/", 100)
	for _, dir := range []string{"coffer-gone", "coffer-lives", "coffer-", "coffer.self", "docker-coffer-gone", "coffer-gone2"} {
		must(t, f.mkdir(filepath.Join(f.mount, dir)))
	}
	f.setPids(filepath.Join(f.mount, "coffer-gone2"), []int{900})
	var asked []string
	s.sweep(func(name string) bool { asked = append(asked, name); return name == "lives" })
	var left []string
	for _, dir := range children(f.mount) {
		left = append(left, filepath.Base(dir))
	}
	if want := []string{"coffer-", "coffer-lives", "coffer.self", "docker-coffer-gone"}; !reflect.DeepEqual(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if want := []string{"gone", "gone2", "lives"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	// Not ours by uid: not even looked at.
	must(t, f.mkdir(filepath.Join(f.mount, "coffer-other")))
	s.euid++
	s.sweep(func(string) bool { return false })
	if !exists(f.mount, "coffer-other") {
		t.Error("swept a group of another user")
	}
}

// A hybrid host: v2 is mounted without the controller, so v1 it is, and the
// controllers that share a hierarchy share a group.
func TestHybrid(t *testing.T) {
	f, s := newFakeV2(t, "/", 100)
	f.put(filepath.Join(f.mount, "cgroup.controllers"), "hugetlb\n")
	v1 := t.TempDir()
	own := filepath.Join(v1, "svc")
	must(t, os.Mkdir(own, 0o755))
	f.put(filepath.Join(own, "cgroup.procs"), "100\n")
	f.put(filepath.Join(f.proc, "self/mountinfo"),
		"1 0 0:1 / "+f.mount+" rw - cgroup2 cgroup2 rw\n2 0 0:2 / "+v1+" rw - cgroup cgroup rw,memory,pids\n")
	f.put(filepath.Join(f.proc, "self/cgroup"), "3:memory,pids:/svc\n0::/\n")
	v1Files := []string{"memory.limit_in_bytes", "memory.swappiness", "pids.max", "cgroup.procs"}
	s.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for _, file := range v1Files {
			f.put(filepath.Join(dir, file), "")
		}
		return nil
	}
	g, err := s.prepare("box", Limits{Memory: 64 << 20, Pids: 8})
	must(t, err)
	if len(g.dirs) != 2 || g.dirs[0].path != filepath.Join(own, "coffer-box") || !g.dirs[1].v2 {
		t.Fatalf("groups: %+v", g.dirs)
	}
	for file, want := range map[string]string{"memory.limit_in_bytes": "67108864", "memory.swappiness": "0", "pids.max": "8"} {
		if data, _ := os.ReadFile(filepath.Join(g.dirs[0].path, file)); string(data) != want {
			t.Errorf("%s is %q, want %q", file, data, want)
		}
	}
	if h := s.probe(); h.Memory.Mechanism != CgroupV1 || h.CPUs.Available() {
		t.Errorf("probe: %+v", h)
	}
	must(t, g.Close())

	s.euid = 1000
	f.deny[own] = unix.EACCES
	_, err = s.prepare("box", Limits{Memory: 64 << 20})
	if err == nil || !strings.Contains(err.Error(), "cgroup v1") || !strings.Contains(err.Error(), "to fix: run coffer as root") {
		t.Errorf("error: %v", err)
	}
}
