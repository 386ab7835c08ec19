package limits

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// system is the host as this package sees it. There is one real one; tests put
// a directory that behaves like cgroup v2 in its place, because the machine
// they run on has its controllers in v1 or in v2, never both.
type system struct {
	proc string // "/proc"
	pid  int
	euid int

	// nprocPerNamespace: RLIMIT_NPROC counts within the user namespace.
	nprocPerNamespace bool
	hard              func(resource int) uint64 // our own hard rlimit

	mkdir    func(dir string) error
	rmdir    func(dir string) error
	write    func(file, value string) error
	writable func(path string) error // without trying
}

func thisHost() *system {
	return &system{
		proc:              "/proc",
		pid:               os.Getpid(),
		euid:              os.Geteuid(),
		nprocPerNamespace: kernelAtLeast(5, 14),
		hard:              hardRlimit,
		mkdir:             func(dir string) error { return os.Mkdir(dir, 0o755) },
		// Not os.Remove: it would try unlink first, and hide EBUSY with it.
		rmdir:    func(dir string) error { return pathError("rmdir", dir, unix.Rmdir(dir)) },
		write:    writeControl,
		writable: func(path string) error { return pathError("access", path, unix.Access(path, unix.W_OK)) },
	}
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// writeControl writes a control file in one write, as cgroupfs wants it, and
// never makes one: a file that is missing is a kernel without that knob.
func writeControl(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	if len(parts) < 2 {
		return false
	}
	gotMajor, _ := strconv.Atoi(parts[0])
	digits := strings.IndexFunc(parts[1]+".", func(r rune) bool { return r < '0' || r > '9' }) // "10-rc1"
	gotMinor, _ := strconv.Atoi(parts[1][:digits])
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

// tree is where we are: our own cgroup's directory in the v2 hierarchy, and in
// the v1 hierarchy of each controller. Empty or absent where there is none.
type tree struct {
	unified string
	v1      map[string]string
}

func (s *system) tree() (tree, error) {
	cgroup, err := os.ReadFile(filepath.Join(s.proc, "self/cgroup"))
	if err != nil {
		return tree{}, err
	}
	mountinfo, err := os.ReadFile(filepath.Join(s.proc, "self/mountinfo"))
	if err != nil {
		return tree{}, err
	}
	in := parseCgroup(string(cgroup))
	t := tree{v1: map[string]string{}}
	for _, m := range parseMountinfo(string(mountinfo)) {
		if m.unified {
			// "/sys/fs/cgroup" first, a second mount elsewhere only if needed.
			if dir, ok := m.visible(in.unified); ok && in.unified != "" && t.unified == "" && isGroup(dir) {
				t.unified = dir
			}
			continue
		}
		for _, controller := range m.options {
			path, listed := in.v1[controller]
			if !listed || t.v1[controller] != "" {
				continue
			}
			if dir, ok := m.visible(path); ok && isGroup(dir) {
				t.v1[controller] = dir
			}
		}
	}
	return t, nil
}

// isGroup guards against a mount that another one hides.
func isGroup(dir string) bool { return exists(dir, "cgroup.procs") }

func exists(dir, file string) bool {
	_, err := os.Lstat(filepath.Join(dir, file))
	return err == nil
}

// words reads a control file that holds a list; missing is empty.
func words(dir, file string) []string {
	data, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(data))
}

// pids lists the processes in a group. One the kernel shows as 0 lives in a PID
// namespace we cannot see into.
func pids(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var list []int
	for word := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(word); err == nil {
			list = append(list, pid)
		}
	}
	// A process may be listed twice while it moves.
	slices.Sort(list)
	return slices.Compact(list), nil
}

// ours reports whether pid is this process or descends from it.
func (s *system) ours(pid int) bool {
	for range 64 { // deeper than that is not worth the walk
		if pid == s.pid {
			return true
		}
		if pid <= 1 {
			return false
		}
		stat, err := os.ReadFile(filepath.Join(s.proc, strconv.Itoa(pid), "stat"))
		if err != nil {
			return false
		}
		parent, ok := parseParent(string(stat))
		if !ok {
			return false
		}
		pid = parent
	}
	return false
}
