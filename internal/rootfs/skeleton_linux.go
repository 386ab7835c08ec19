package rootfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// deepest is how far down the directories of /opt are prepared. Programs lie there in one piece,
// with thousands of directories, and every one costs time when root is first asked for.
const deepest = 5

// A skeleton is a copy of the directories of a system directory, and of some files, to be
// owned by root of the sandbox. There are thousands, and somebody waits for them: so they are
// made by several threads, and each by its name in a directory that is open.
type skeleton struct {
	top  string // the system directory
	team *team
	// A hundred thousand files are not looked at: those of this directory are all alike.
	plain bool
	// counting is the device whose directories have two links, and one for each directory in
	// them; 0 if it is not known to be so.
	counting uint64
	// large is where the large files go that are directly in the system directory. They are copied
	// the first time only: later they are the sandbox's own.
	large int
	first bool
}

const tooLarge = 1 << 20

// team are those who work on skeletons. It has the first error of them all.
type team struct {
	places chan struct{}
	work   sync.WaitGroup
	mu     sync.Mutex
	err    error
}

// newTeam is as large as there are processors, unless files are scarce: each one who works has a
// dozen of them open.
func newTeam() *team {
	many := runtime.GOMAXPROCS(0)
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || files.Cur < fewFiles {
		many = 0
	}
	return &team{places: make(chan struct{}, many)}
}

const fewFiles = 256

// join has a place for one more, or none. Who has one goes to [team.do], or leaves.
func (t *team) join() bool {
	select {
	case t.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t *team) leave() { <-t.places }

func (t *team) do(f func()) {
	t.work.Go(func() {
		defer t.leave()
		f()
	})
}

func (t *team) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *team) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}

// wait waits until all is done.
func (t *team) wait() error {
	t.work.Wait()
	return t.err
}

// build makes the skeleton of a system directory in another one, which is empty, or has what
// there is from a time when that was not finished.
func (t *team) build(top string, to, large int, first bool) error {
	from, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err = again(to)
	if err != nil {
		return err
	}
	s := &skeleton{top: top, team: t, plain: top == "/usr" || top == "/opt", counting: counting(from), large: large, first: first}
	return s.dir(from, ".", to, 0, make([]byte, chunk))
}

// chunk is how much is read at once.
const chunk = 64 << 10

// counting is the device of a directory, if its file system is one that counts links.
func counting(dir int) uint64 {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstatfs(dir, &fs) != nil || unix.Fstat(dir, &st) != nil {
		return 0
	}
	if fs.Type != unix.EXT4_SUPER_MAGIC && fs.Type != unix.XFS_SUPER_MAGIC {
		return 0
	}
	return st.Dev
}

// again is another descriptor of the same.
func again(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// dir copies what is in a directory that is so far down, and closes the copy, which exists.
// The buffer is used by one at a time.
func (s *skeleton) dir(parent int, name string, to, depth int, buf []byte) error {
	defer unix.Close(to)
	from, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return err // that says nothing about it, and it would be seen without what is in it
	default:
		// It may not be read. Its copy must not be merged with what it hides.
		_ = unix.Setxattr(fmt.Sprintf("/proc/self/fd/%d", to), opaque, []byte("y"), 0)
		return nil
	}
	defer unix.Close(from)
	if s.top == "/opt" && depth == deepest {
		return nil
	}
	dirs, files := s.list(from, buf)
	for _, name := range files {
		if err := s.file(from, name, to, depth+1, buf); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range dirs {
		if err := s.below(from, name, to, depth+1, buf); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

const opaque = "user.overlay.opaque"

// below copies a directory of a directory.
func (s *skeleton) below(from int, name string, to, depth int, buf []byte) error {
	var st unix.Stat_t
	if unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil // it is gone
	}
	if err := unix.Mkdirat(to, name, st.Mode&0o777|0o700); err != nil && err != unix.EEXIST {
		return err
	}
	if s.done(&st, depth) || s.team.failed() {
		return nil
	}
	made, err := unix.Openat(to, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if !s.team.join() {
		return s.dir(from, name, made, depth, buf)
	}
	if from, err = again(from); err != nil {
		s.team.leave()
		unix.Close(made)
		return err
	}
	s.team.do(func() {
		defer unix.Close(from)
		if err := s.dir(from, name, made, depth, make([]byte, chunk)); err != nil {
			s.team.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
	return nil
}

// done says that there is nothing to copy in a directory that is so far down, or nothing that
// counts: then it need not be read. One that may not be read has more to it.
func (s *skeleton) done(st *unix.Stat_t, depth int) bool {
	const all = 0o005 // who is neither the owner nor of the group may read it
	leaf := s.plain && st.Nlink == 2 && st.Dev == s.counting
	return st.Mode&all == all && (leaf || s.top == "/opt" && depth == deepest)
}

// list are the directories in a directory, and those of its files that may have to be copied.
// What cannot be read to its end ends there.
func (s *skeleton) list(dir int, buf []byte) (dirs, files []string) {
	for {
		n, err := unix.Getdents(dir, buf)
		if err != nil || n <= 0 {
			return dirs, files
		}
		for b := buf[:n]; len(b) > 19; b = b[binary.NativeEndian.Uint16(b[16:]):] {
			kind := b[18]
			if kind != unix.DT_DIR && kind != unix.DT_UNKNOWN && (kind != unix.DT_REG || s.plain) {
				continue
			}
			name, _, _ := bytes.Cut(b[19:], []byte{0})
			switch {
			case string(name) == "." || string(name) == "..":
			case kind == unix.DT_REG:
				files = append(files, string(name))
			case kind == unix.DT_DIR:
				dirs = append(dirs, string(name))
			default: // both look what it is
				dirs = append(dirs, string(name))
				if !s.plain {
					files = append(files, string(name))
				}
			}
		}
	}
}

// file copies a file, if it is one of those that are changed in place or linked to.
func (s *skeleton) file(from int, name string, to, depth int, buf []byte) error {
	var st unix.Stat_t
	if unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	private := st.Mode&0o004 == 0
	if s.top != "/etc" && !private && depth > 1 && !strings.HasPrefix(name, "lock") {
		return nil
	}
	if s.top == "/var/cache/apt" && strings.HasSuffix(name, ".bin") {
		return nil // apt's index of a hundred megabytes, which it replaces
	}
	if depth == 1 && st.Size > tooLarge {
		if !s.first {
			return nil
		}
		to = s.large
	}
	return copyFile(from, name, to, &st, buf)
}

// copyFile copies a file of /etc and the like; one that may not be read becomes an empty one.
func copyFile(from int, name string, to int, st *unix.Stat_t, buf []byte) error {
	in, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil && err != unix.EACCES && err != unix.EPERM {
		return err
	}
	defer unix.Close(in)
	out, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, st.Mode&0o777|0o600)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	for in >= 0 {
		n, err := unix.Read(in, buf)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; b = b[n:] {
			if n, err = unix.Write(out, b); err != nil {
				return err
			}
		}
	}
	return unix.UtimesNanoAt(to, name, []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
