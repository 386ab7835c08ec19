package limits

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeV2 is a directory that behaves like a cgroup v2 mount as far as this
// package can tell: directories get control files, processes are in one group
// at a time, and the no-internal-processes rule holds. It exists because the
// machines these tests run on may have their controllers in v1.
type fakeV2 struct {
	t     *testing.T
	mount string
	proc  string
	self  int // our own pid
	deny  map[string]error
	fail  map[string]error // writes that fail, by file name
}

// newFakeV2 starts with the given processes in own; the first is this process.
func newFakeV2(t *testing.T, own string, procs ...int) (*fakeV2, *system) {
	t.Helper()
	f := &fakeV2{t: t, mount: t.TempDir(), proc: t.TempDir(), self: procs[0], deny: map[string]error{}, fail: map[string]error{}}
	must(t, os.Mkdir(filepath.Join(f.proc, "self"), 0o755))
	f.put(filepath.Join(f.proc, "self/mountinfo"), fmt.Sprintf("1 0 0:1 / %s rw - cgroup2 cgroup2 rw\n", f.mount))
	f.populate(f.mount, "memory pids cpu io")
	must(t, os.Remove(filepath.Join(f.mount, "cgroup.type"))) // the root has none
	dir := f.mount
	for part := range strings.FieldsFuncSeq(own, func(r rune) bool { return r == '/' }) {
		must(t, os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("memory pids cpu"), 0o644))
		dir = filepath.Join(dir, part)
		must(t, f.mkdir(dir))
	}
	for _, pid := range procs {
		f.process(pid, 1)
	}
	f.setPids(dir, procs)
	f.here(dir)
	return f, &system{
		proc: f.proc, pid: f.self, euid: os.Geteuid(),
		nprocPerNamespace: true, hard: func(int) uint64 { return math.MaxUint64 },
		mkdir: f.mkdir, rmdir: f.rmdir, write: f.write, writable: f.writable,
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fakeV2) put(path, text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(path, []byte(text), 0o644))
}

// process makes /proc/<pid>/stat.
func (f *fakeV2) process(pid, parent int) {
	dir := filepath.Join(f.proc, strconv.Itoa(pid))
	must(f.t, os.MkdirAll(dir, 0o755))
	f.put(filepath.Join(dir, "stat"), fmt.Sprintf("%d (x) S %d 0 0", pid, parent))
}

// here makes /proc/self/cgroup say dir.
func (f *fakeV2) here(dir string) {
	f.put(filepath.Join(f.proc, "self/cgroup"), "0::/"+strings.TrimPrefix(strings.TrimPrefix(dir, f.mount), "/")+"\n")
}

func (f *fakeV2) setPids(dir string, list []int) {
	var b strings.Builder
	for _, pid := range list {
		fmt.Fprintln(&b, pid)
	}
	f.put(filepath.Join(dir, "cgroup.procs"), b.String())
}

func (f *fakeV2) populate(dir, controllers string) {
	files := map[string]string{
		"cgroup.procs": "", "cgroup.controllers": controllers, "cgroup.subtree_control": "", "cgroup.type": "domain\n", "cgroup.kill": "",
	}
	for c := range strings.FieldsSeq(controllers) {
		switch c {
		case "memory":
			files["memory.max"], files["memory.swap.max"], files["memory.oom.group"] = "max", "max", "0"
			files["memory.current"], files["memory.peak"] = "0", "0"
			files["memory.events"] = "low 0\noom 0\noom_kill 0\n"
		case "pids":
			files["pids.max"], files["pids.current"] = "max", "0"
		case "cpu":
			files["cpu.max"], files["cpu.stat"] = "max 100000", "usage_usec 0\nnr_throttled 0\n"
		}
	}
	for name, text := range files {
		f.put(filepath.Join(dir, name), text)
	}
}

func (f *fakeV2) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	f.populate(dir, strings.Join(words(filepath.Dir(dir), "cgroup.subtree_control"), " "))
	return nil
}

func (f *fakeV2) rmdir(dir string) error {
	list, err := pids(dir)
	if err != nil {
		return pathError("rmdir", dir, unix.ENOENT)
	}
	if len(list) > 0 || len(children(dir)) > 0 {
		return pathError("rmdir", dir, unix.EBUSY)
	}
	return os.RemoveAll(dir)
}

func (f *fakeV2) writable(path string) error { return f.deny[path] }

func (f *fakeV2) write(file, value string) error {
	dir, name := filepath.Split(file)
	dir = filepath.Clean(dir)
	if err := f.fail[name]; err != nil {
		return pathError("write", file, err)
	}
	if _, err := os.Stat(file); err != nil {
		return err
	}
	switch name {
	case "cgroup.procs":
		return f.attach(dir, value)
	case "cgroup.subtree_control":
		return f.enable(dir, value)
	case "cgroup.kill":
		return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				f.setPids(path, nil)
			}
			return err
		})
	}
	f.put(file, value)
	return nil
}

// attach moves a process out of wherever it is, into dir.
func (f *fakeV2) attach(dir, value string) error {
	pid, err := strconv.Atoi(value)
	must(f.t, err)
	if dir != f.mount && len(words(dir, "cgroup.subtree_control")) > 0 {
		return pathError("write", dir, unix.EBUSY)
	}
	must(f.t, filepath.WalkDir(f.mount, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if list, _ := pids(path); slices.Contains(list, pid) {
				f.setPids(path, slices.DeleteFunc(list, func(p int) bool { return p == pid }))
			}
		}
		return err
	}))
	list, _ := pids(dir)
	f.setPids(dir, append(list, pid))
	if pid == f.self {
		f.here(dir)
	}
	return nil
}

// enable is the no-internal-processes rule: not with processes in the group,
// unless it is the root.
func (f *fakeV2) enable(dir, value string) error {
	list, _ := pids(dir)
	if dir != f.mount && len(list) > 0 {
		return pathError("write", dir, unix.EBUSY)
	}
	on := words(dir, "cgroup.subtree_control")
	for word := range strings.FieldsSeq(value) {
		name := strings.TrimPrefix(word, "+")
		if !slices.Contains(words(dir, "cgroup.controllers"), name) {
			return pathError("write", dir, unix.ENOENT)
		}
		on = append(on, name)
	}
	f.put(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(on, " "))
	for _, child := range children(dir) {
		list, _ := pids(child)
		f.populate(child, strings.Join(on, " "))
		f.setPids(child, list)
	}
	return nil
}

func (f *fakeV2) read(path ...string) string {
	data, err := os.ReadFile(filepath.Join(append([]string{f.mount}, path...)...))
	if err != nil {
		f.t.Errorf("read: %v", err)
	}
	return strings.TrimSpace(string(data))
}
