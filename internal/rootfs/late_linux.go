package rootfs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// What is shown to programs that run already appears in one piece. It is put together where
// they cannot look, below the covered layers: the worktree, the file over its .git, and what
// hides files in it. Then the whole is moved to its place, which the kernel does at once.
//
// It goes the same way: what is unmounted would first lose what hides its files, and a program
// may still stand in it.

// ErrShown says that something is mounted in a place already.
var ErrShown = errors.New("something is shown there already")

// A Ready is a worktree that is put together, and not seen yet.
type Ready struct {
	layers *Layers
	late   *Late
	tree   int
}

// PrepareLate puts a worktree together that is to be shown in a running sandbox. handed are its
// mounts, which it closes. Its git directory can be reached from now on.
func (l *Layers) PrepareLate(late *Late, handed []int) (_ *Ready, err error) {
	a, err := l.assembly(handed)
	if err != nil {
		return nil, err
	}
	defer a.close()
	l.lates.mu.Lock()
	l.forget(late.At) // another that was there before
	l.lates.mu.Unlock()
	if len(handed) == 0 {
		return nil, errors.New("its worktree was not handed over")
	}
	if err := a.prepare(late, handed[0]); err != nil {
		return nil, errors.Join(err, l.Discard(late))
	}
	tree, err := unix.FcntlInt(uintptr(handed[0]), unix.F_DUPFD_CLOEXEC, 0)
	return &Ready{l, late, tree}, err
}

// assembly is for work in a sandbox that runs.
func (l *Layers) assembly(handed []int) (a *assembly, err error) {
	a = &assembly{root: root{-1}, host: root{-1}, null: -1, empty: -1, handed: handed, layers: l}
	a.root.fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		a.null, err = nothing(a.root, false)
	}
	if err != nil {
		a.close()
	}
	return a, err
}

// ErrMoved says that programs inside moved a place away while something was to be shown there.
var ErrMoved = errors.New("its place is being moved away by a program inside")

// Reveal moves the worktree to its place.
func (r *Ready) Reveal() error {
	a, err := r.layers.assembly(nil)
	if err != nil {
		return err
	}
	defer a.close()
	at, err := a.place(r.late)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	l := &r.layers.lates
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.keep(r.late.At, r.tree); err != nil {
		return err
	}
	return attach(r.tree, at)
}

// shows says whether a path leads to the root of this very mount. (Linux 5.8)
func (r root) shows(path string, mount int) (bool, error) {
	at, err := r.open(path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(at)
	var here, want unix.Statx_t
	for fd, st := range map[int]*unix.Statx_t{at: &here, mount: &want} {
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, st); err != nil {
			return false, err
		}
	}
	return here.Mnt_id == want.Mnt_id && here.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// Close is for when it is not needed any more, shown or not.
func (r *Ready) Close() { unix.Close(r.tree) }

// place opens where the worktree is to be seen. It stays where it is from now on, and so do the
// directories above.
func (a *assembly) place(late *Late) (int, error) {
	at, err := a.root.make(late.At, true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	mounted, err := isMount(at)
	if err == nil && mounted {
		err = ErrShown
	}
	if err == nil {
		rel := strings.TrimPrefix(late.At, strings.TrimSuffix(late.Workspace, "/")+"/")
		err = a.layers.anchorFirm(a.root, late.Workspace, Above(rel))
	}
	if err == nil {
		err = a.occupy(at, late.At)
	}
	if errors.Is(err, unix.ENOENT) {
		err = ErrMoved // or removed
	}
	if err != nil {
		return -1, err
	}
	return a.root.open(late.At)
}

// occupy mounts an empty directory in a place, of which there is a descriptor: a program could
// have moved the directory since it was opened, and from now on cannot.
func (a *assembly) occupy(at int, path string) error {
	empty, err := a.root.make(Empty, true)
	if err != nil {
		return err
	}
	defer unix.Close(empty)
	mount, err := clone(empty)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := restrict(mount, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC|safe); err != nil {
		return err
	}
	if err := attach(mount, at); err != nil {
		return err
	}
	there, err := a.root.shows(path, mount)
	if err == nil && !there {
		err = ErrMoved
	}
	if err != nil {
		return errors.Join(err, a.layers.stow(mount))
	}
	return nil
}

// prepare puts the worktree together, out of sight.
func (a *assembly) prepare(late *Late, tree int) error {
	if err := restrict(tree, safe); err != nil {
		return fmt.Errorf("restrict: %w", err)
	}
	if err := a.layers.stow(tree); err != nil {
		return err
	}
	for i := range late.Steps {
		s := &late.Steps[i]
		err := a.lateStep(late, tree, s)
		if err != nil && !s.forgives(err) {
			return fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
	}
	for _, path := range late.Hidden {
		if err := a.layers.anchorBelow(late.At, tree, Above(path)); err != nil {
			return err
		}
		err := forbidIn(root{tree}, path, a.root)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// lateStep does one of the steps. What is of the worktree is reached in it; what is beside it
// is on the root's own file system, which is closed.
func (a *assembly) lateStep(late *Late, tree int, s *Step) error {
	if rel, ok := strings.CutPrefix(s.Target, late.At+"/"); ok {
		in := &assembly{root: root{tree}, host: a.host, null: a.null, empty: -1, handed: a.handed, layers: a.layers}
		step := *s
		step.Target = rel
		return in.step(nil, &step)
	}
	switch s.Do {
	case Symlink:
		err := a.closed(func(view root) error { return (&assembly{root: view}).symlink(s) })
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	case Bind:
		if err := a.lateTarget(s); err != nil {
			return err
		}
	}
	return a.step(nil, s)
}

// lateTarget makes the place of a mount.
func (a *assembly) lateTarget(s *Step) error {
	if s.FD < 1 || s.FD > len(a.handed) {
		return errors.New("its mount was not handed over")
	}
	dir, err := isDir(a.handed[s.FD-1])
	if err != nil {
		return err
	}
	err = a.closed(func(view root) error {
		fd, err := view.make(s.Target, dir)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return err
	}
	at, err := a.root.open(s.Target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mounted, err := isMount(at)
	if err == nil && mounted {
		err = ErrShown
	}
	return err
}

// closed changes something on the root's own file system, by a second view of it that can be
// written and that nobody else has.
func (a *assembly) closed(change func(view root) error) error {
	view, err := unix.OpenTree(a.root.fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a second view of the root: %w", err)
	}
	defer unix.Close(view)
	if err := unix.MountSetattr(view, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("open the root for writing: %w", err)
	}
	return change(root{view})
}

// stow moves a mount to where nobody can look. It hangs in the layers' own root: a program that
// stands in it, and goes up, comes to what covers that root, and not to the mounts beside.
func (l *Layers) stow(mount int) error {
	l.anchors.mu.Lock()
	l.anchors.stowed++
	name := fmt.Sprintf("/stowed-%d", l.anchors.stowed)
	l.anchors.mu.Unlock()
	at, err := l.root.make(name, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if dir, err := isDir(mount); err != nil || !dir {
		return errors.Join(err, errors.New("not a directory"))
	}
	return attach(mount, at)
}
