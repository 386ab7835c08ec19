package rootfs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const safe = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// stage is a directory of the host on which the new root is put together, before it
// takes the place of the old one. It only has to exist; nobody else sees it covered.
const stage = "/tmp"

// Assemble builds the root of the calling process's mount namespace from the plan
// and enters it. handed are the detached mounts that steps refer to by number. It
// returns the sandbox's layers, which nobody can reach by a path any more.
func Assemble(p *Plan, handed []int) (*Layers, error) {
	if err := enter(); err != nil {
		return nil, err
	}
	a, err := newAssembly(handed)
	if err != nil {
		return nil, err
	}
	defer a.close()
	for i := range p.Steps {
		s := &p.Steps[i]
		if err := a.step(p, s); err != nil && !s.forgives(err) {
			return nil, fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
	}
	return a.layers, a.leave()
}

// forgives says whether a step may fail in this way. What hides or protects something
// may find nothing to hide, and that is all.
func (s *Step) forgives(err error) bool {
	switch s.Do {
	case Mask, Forbid, Lock, Pin, Anchor:
		return s.Optional && errors.Is(err, unix.ENOENT)
	}
	return s.Optional
}

// enter makes an empty root, with the host's hanging in it, the root of this process.
func enter() error {
	// What is mounted on the host from now on must not appear here, nor ours there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("coffer", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=50%,nr_inodes=1m"); err != nil {
		return fmt.Errorf("mount the new root: %w", err)
	}
	if err := os.Mkdir(stage+oldRoot, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(stage, stage+oldRoot); err != nil {
		return fmt.Errorf("pivot to the new root: %w", err)
	}
	return os.Chdir("/")
}

// assembly is the work in progress.
type assembly struct {
	root   root
	host   root
	null   int // host's /dev/null, for masks
	empty  int // an empty read-only directory, for masks
	handed []int
	layers *Layers
	views  map[string]int // second views for anchors, by the tree's path inside
}

func newAssembly(handed []int) (*assembly, error) {
	r, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	h, err := unix.Open(oldRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &assembly{root: root{r}, host: root{h}, null: -1, empty: -1, handed: handed, views: map[string]int{}}, nil
}

func (a *assembly) close() {
	all := append([]int{a.root.fd, a.host.fd, a.null, a.empty}, a.handed...)
	for _, fd := range slices.AppendSeq(all, maps.Values(a.views)) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// leave lets go of the host's root and closes the new one for writing. The layers are
// covered: the sandbox's own id owns them, and who could put a link there would choose
// where the next start's overlays write.
func (a *assembly) leave() error {
	if a.layers != nil {
		if err := a.mask(&Step{Target: layersDir}); err != nil {
			return fmt.Errorf("cover the layers: %w", err)
		}
	}
	if err := unix.Unmount(oldRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	if err := os.Remove(oldRoot); err != nil {
		return err
	}
	if err := unix.MountSetattr(a.root.fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | safe}); err != nil {
		return fmt.Errorf("close the root: %w", err)
	}
	return nil
}

func (a *assembly) step(p *Plan, s *Step) error {
	switch s.Do {
	case Bind:
		return a.bind(s)
	case Keep:
		return a.keep(s)
	case Scratch:
		return a.scratch(s)
	case Proc:
		return a.proc(s)
	case Devpts:
		return a.fresh("devpts", "newinstance,ptmxmode=0666,mode=620", s.Target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	case Dir:
		fd, err := a.root.make(s.Target, true)
		unix.Close(fd)
		return err
	case Closed:
		fd, err := a.root.make(s.Target, true)
		if err != nil {
			return err
		}
		unix.Close(fd)
		return os.Chmod(s.Target, 0)
	case Symlink:
		return a.symlink(s)
	case Replace:
		return a.replace(s)
	case Seed:
		return a.seed(s)
	case Write, Copy:
		return a.write(s)
	case Mask:
		return a.mask(s)
	case Forbid:
		return forbid(a.root, s.Target)
	case Lock:
		return a.pin(s, unix.MOUNT_ATTR_RDONLY|safe)
	case Pin:
		return a.pin(s, safe)
	case Anchor:
		return a.anchor(s.Data, s.Target)
	case Overlay:
		return a.overlay(p, s)
	case Cgroup:
		return a.cgroup(s)
	case Identify:
		return a.identify(s)
	}
	return fmt.Errorf("unknown step %q", s.Do)
}

// bind shows a host path, or a mount that was handed over.
func (a *assembly) bind(s *Step) error {
	tree, err := a.source(s)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	attr := uint64(unix.MOUNT_ATTR_NOSUID)
	if !s.Device {
		attr |= unix.MOUNT_ATTR_NODEV
	}
	if s.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if err := restrict(tree, attr); err != nil {
		return fmt.Errorf("restrict: %w", err)
	}
	dir, err := isDir(tree)
	if err != nil {
		return err
	}
	return a.attach(tree, s.Target, dir)
}

// keep brings in the directory of the sandbox's layers.
func (a *assembly) keep(s *Step) error {
	if err := a.bind(s); err != nil {
		return err
	}
	fd, err := a.root.open(s.Target)
	if err != nil {
		return err
	}
	a.layers = &Layers{root: root{fd}}
	return nil
}

func (a *assembly) source(s *Step) (int, error) {
	if s.FD > 0 {
		if s.FD > len(a.handed) {
			return -1, errors.New("its mount was not handed over")
		}
		return unix.FcntlInt(uintptr(a.handed[s.FD-1]), unix.F_DUPFD_CLOEXEC, 0)
	}
	fd, err := a.host.open(s.Source)
	if err != nil {
		return -1, fmt.Errorf("open %s on the host: %w", s.Source, err)
	}
	defer unix.Close(fd)
	tree, err := clone(fd)
	if err != nil {
		return -1, fmt.Errorf("clone %s: %w", s.Source, err)
	}
	return tree, nil
}

func (a *assembly) attach(tree int, target string, dir bool) error {
	at, err := a.root.make(target, dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attach(tree, at)
}

func (a *assembly) fresh(kind, options, target string, attr int) error {
	fd, err := newfs(kind, options, attr)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return a.attach(fd, target, true)
}

// proc shows a fresh /proc, and sets ceilings for the user namespace. Without them, on an older
// kernel or where a profile forbids it, the sandbox is no less safe.
func (a *assembly) proc(s *Step) error {
	fd, err := newfs("proc", "", safe|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for line := range strings.Lines(s.Data) {
		name, number, _ := strings.Cut(line, " ")
		if f, err := unix.Openat(fd, "sys/user/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
			_, _ = unix.Write(f, []byte(number))
			unix.Close(f)
		}
	}
	if s.ReadOnly {
		if err := restrict(fd, unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	return a.attach(fd, s.Target, true)
}

// scratch gives a directory of the new root's own tmpfs, writable although the root
// is not. A file system each would cost more, most of all when it is taken down.
func (a *assembly) scratch(s *Step) error {
	name := Own + "/scratch" + s.Target
	from, err := a.root.make(name, true)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if s.Shared {
		if err := os.Chmod(name, 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	at, err := a.root.make(s.Target, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return cover(from, at, safe)
}

// cover shows a copy of one place of the sandbox at another.
func cover(from, at int, attr uint64) error {
	tree, err := clone(from)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := restrict(tree, attr); err != nil {
		return err
	}
	return attach(tree, at)
}

// mask puts nothing over a place.
func (a *assembly) mask(s *Step) error {
	at, err := a.root.open(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	dir, err := isDir(at)
	if err != nil {
		return err
	}
	if !dir {
		if a.null < 0 {
			if a.null, err = a.host.open("/dev/null"); err != nil {
				return err
			}
		}
		return cover(a.null, at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	if a.empty < 0 {
		if a.empty, err = a.root.make(Empty, true); err != nil {
			return err
		}
	}
	return cover(a.empty, at, unix.MOUNT_ATTR_RDONLY|safe|unix.MOUNT_ATTR_NOEXEC)
}

// pin makes a place of the sandbox a mount point: it can no longer be renamed or
// removed, and has attributes of its own.
func (a *assembly) pin(s *Step, attr uint64) error {
	at, err := a.root.open(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return cover(at, at, attr)
}

// overlay shows a copy-on-write view of a directory that an earlier step has put
// into the sandbox, and takes that one away again.
func (a *assembly) overlay(p *Plan, s *Step) error {
	if a.layers == nil {
		return errors.New("there are no layers")
	}
	if err := a.layers.mount(a.root, p.Volatile, s.Source, s.Data, s.Target); err != nil {
		return err
	}
	return unix.Unmount(s.Source, unix.MNT_DETACH)
}

// cgroup shows files as those of a control group. A JVM and Go look for a mount of kind
// cgroup2 and then open the files by name: so there is one, read-only, and the files cover it.
// Where it cannot be mounted, programs that only open files find them all the same.
func (a *assembly) cgroup(s *Step) error {
	_ = a.fresh("cgroup2", "", s.Target, safe|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
	from, err := a.root.make(s.Source, true)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	at, err := a.root.make(s.Target, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return cover(from, at, safe|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
}

func (a *assembly) identify(s *Step) error {
	fd, err := a.root.open(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != s.Dev || st.Ino != s.Ino {
		return errors.New("another directory was put in its place while the sandbox started")
	}
	return nil
}
