package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupDir is a group's directory in one hierarchy, locked by its owner.
type groupDir struct {
	path string
	v2   bool
	fd   int // open directory; holds the lock
}

var errOwned = errors.New("a running sandbox has it")

// claim makes the directory and locks it. A group of the same name that nobody
// holds is left over from a coffer that was killed, and makes way.
func (s *system) claim(path string) (*groupDir, error) {
	for range 100 {
		err := s.mkdir(path)
		made := err == nil
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		fd, err := lock(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), made && errors.Is(err, errOwned):
			// A Sweep saw it before it was locked, and removes it.
			time.Sleep(time.Millisecond)
			continue
		case err != nil:
			return nil, fmt.Errorf("cgroup %s: %w", path, err)
		case made:
			return &groupDir{path: path, fd: fd}, nil
		}
		err = s.destroy(path)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("cgroup %s: removed again and again by somebody else", path)
}

// lock takes the group at path for this process, without waiting. The lock is
// the kernel's: it ends with the process. ErrNotExist means that the directory
// was removed before the lock was had.
func lock(path string) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, pathError("open", path, err)
	}
	if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		if err == unix.EWOULDBLOCK {
			return -1, errOwned
		}
		return -1, pathError("flock", path, err)
	}
	var held, there unix.Stat_t
	if unix.Fstat(fd, &held) != nil || unix.Lstat(path, &there) != nil || held.Ino != there.Ino {
		unix.Close(fd)
		return -1, pathError("lock", path, unix.ENOENT)
	}
	return fd, nil
}

// destroyTries bounds how long we wait for killed processes to be gone, about
// three seconds. They need milliseconds, unless one is stuck in the kernel; on a
// machine that stands still meanwhile, it is not the time that counts.
const destroyTries = 64

// destroy removes a group, its children, and the processes in them.
func (s *system) destroy(path string) error {
	delay := time.Millisecond
	for try := 1; ; try++ {
		err := s.removeTree(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || try == destroyTries {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		s.killAll(path)
		time.Sleep(delay)
		delay = min(2*delay, 50*time.Millisecond)
	}
}

// removeTree removes path and the groups below it, deepest first. Control
// files need no removing: they go with their directory.
func (s *system) removeTree(path string) error {
	err := s.rmdir(path)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	below := children(path)
	if len(below) == 0 {
		return err
	}
	for _, child := range below {
		if err := s.removeTree(child); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.rmdir(path)
}

func children(path string) []string {
	entries, _ := os.ReadDir(path)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(path, e.Name()))
		}
	}
	return dirs
}

// killAll kills every process in the group and below. cgroup.kill (v2, Linux
// 5.14) does that at once, forks in flight included; otherwise one by one, and
// the caller comes back for what was forked meanwhile.
func (s *system) killAll(path string) {
	if s.write(filepath.Join(path, "cgroup.kill"), "1") == nil {
		return
	}
	for _, child := range children(path) {
		s.killAll(child)
	}
	list, _ := pids(path)
	for _, pid := range list {
		if pid > 0 && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// Sweep removes groups whose sandbox is gone: their owner was killed before it
// could. It looks only below the cgroup coffer runs in, and takes a group only
// if it is called coffer-<name>, belongs to this user, is locked by nobody, and
// alive(name) is false. Processes left in such a group are killed. What cannot
// be removed now is left for the next time.
func Sweep(alive func(name string) bool) { thisHost().sweep(alive) }

func (s *system) sweep(alive func(name string) bool) {
	t, err := s.tree()
	if err != nil || alive == nil {
		return
	}
	var bases []string
	if t.unified != "" {
		bases = append(bases, baseOf(t.unified))
	}
	for _, controller := range controllers {
		if dir, ok := t.v1[controller]; ok && !slices.Contains(bases, dir) {
			bases = append(bases, dir)
		}
	}
	for _, base := range bases {
		for _, path := range children(base) {
			name, ok := strings.CutPrefix(filepath.Base(path), groupPrefix)
			if ok && name != "" && s.owns(path) && !alive(name) {
				s.reclaim(path)
			}
		}
	}
}

func (s *system) reclaim(path string) {
	fd, err := lock(path)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = s.destroy(path)
}

func (s *system) owns(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) == s.euid
}
