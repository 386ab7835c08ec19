package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// Layers are the writable layers of a sandbox's overlays. What is in them belongs to
// the sandbox, so they are covered by an empty directory, and reached by descriptor.
type Layers struct {
	root root
}

// path names something in the layers for calls that take a path.
func (l *Layers) path(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", l.root.fd, name)
}

// mount lays an overlay of lower over target, writing into the named layer.
func (l *Layers) mount(r root, volatile bool, lower, name, target string) error {
	// By descriptors that were reached without following a link.
	var dirs [2]string
	for i, d := range []string{"upper", "work"} {
		fd, err := l.root.make(filepath.Join("/", name, d), true)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		dirs[i] = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	// userxattr: an unprivileged overlay keeps its notes in user.* attributes.
	options := "userxattr,lowerdir=" + lower + ",upperdir=" + dirs[0] + ",workdir=" + dirs[1]
	if volatile {
		options += ",volatile"
	}
	fd, err := newfs("overlay", options, safe)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at, err := r.make(target, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attach(fd, at)
}

// overSystem lays an overlay over a system directory.
func (l *Layers) overSystem(r root, p *Plan, memory bool, dir string) error {
	name := p.layerName(dir)
	inMemory := memory && p.inMemory(dir)
	made := filepath.Join("/", name, "upper")
	if inMemory {
		made = filepath.Join("/", bonesDir, name)
	}
	below, err := r.open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(below)
	// By descriptors: in the list of options, some characters of a name mean something.
	lower := fmt.Sprintf("/proc/self/fd/%d", below)
	if inMemory {
		bones, err := l.root.open(made)
		if err != nil {
			return err
		}
		defer unix.Close(bones)
		lower = fmt.Sprintf("/proc/self/fd/%d:%s", bones, lower)
	}
	err = l.mount(r, p.Volatile, lower, name, dir)
	if dir != "/etc" || !errors.Is(err, unix.EINVAL) {
		return err
	}
	// Files of /etc are mounts of their own on some hosts, such as containers, and the kernel
	// refuses an overlay over these. The skeleton has them all.
	from, err := l.root.open(made)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return cover(from, below, safe)
}

// inMemory says whether the skeleton of a system directory is made in memory, at each start. With
// files it need not be small, and what has become of them must be kept.
//
// The directories of an image have the right owner already, and only /etc has a skeleton.
func (p *Plan) inMemory(dir string) bool {
	return (bare(dir) || p.Volatile) && (!p.Owned || dir == "/etc")
}

// bonesDir is where in the layers the skeletons are that are in memory.
const bonesDir = "system/bones"

// skeletons makes the skeletons of what root may change. Most are made in memory at
// each start, as a layer between the host's directories and the sandbox's own: on a disk the ten
// thousand directories of /usr take seconds to make, and to remove. The others are in the sandbox's own
// layer, and made the first time. Before Linux 6.6 memory has no attributes, which skeletons need, and
// the disk has to do for all.
func (l *Layers) skeletons(p *Plan, first bool) (memory bool, err error) {
	fd, err := newfs("tmpfs", "mode=755,size=10%,nr_inodes=1m", safe)
	if err != nil {
		return false, fmt.Errorf("make room in memory: %w", err)
	}
	defer unix.Close(fd)
	memory = unix.Setxattr(fmt.Sprintf("/proc/self/fd/%d", fd), opaque, []byte("n"), 0) == nil
	if memory {
		at, err := l.root.make("/"+bonesDir, true)
		if err != nil {
			return memory, err
		}
		defer unix.Close(at)
		if err := attach(fd, at); err != nil {
			return memory, err
		}
	}
	for _, dir := range p.changeable() {
		var err error
		switch {
		case p.Owned && dir != "/etc": // of which only files may have others over them
		case memory && p.inMemory(dir):
			err = l.skeleton(dir, filepath.Join("/", bonesDir, p.layerName(dir)))
		case first:
			err = l.skeleton(dir, filepath.Join("/", p.layerName(dir), "upper"))
		}
		if err != nil {
			return memory, fmt.Errorf("prepare %s: %w", dir, err)
		}
	}
	return memory, nil
}

// skeleton makes one, in a directory of the layers.
func (l *Layers) skeleton(dir, name string) error {
	fd, err := l.root.make(name, true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return err
	}
	defer to.Close()
	return build(dir, to)
}

// WasWritable says whether MakeWritable has been called in an earlier session.
func (l *Layers) WasWritable() bool {
	_, err := os.Lstat(l.path("system/ready"))
	return err == nil
}

// MakeWritable lays a copy-on-write layer over every system directory of a running
// sandbox, for its root to change: whoever calls is root's own id. alone says that no
// other id exists inside.
//
// The host's files belong to ids that the sandbox does not map, and in a user
// namespace not even its root may write to a directory of such an owner. But of a
// directory that exists in several layers the uppermost counts, and its owner with it: so
// the tree of directories is made first, see [skeleton]. In it new files
// can be made and old ones replaced and removed, which is how package managers work. Files
// that are changed in place or linked to, those of /etc and the package managers'
// lists, are copied too.
func (l *Layers) MakeWritable(p *Plan, alone bool) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r := root{fd}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("open the root for writing: %w", err)
	}
	first := !l.WasWritable()
	if !p.within("/var") {
		if err := l.keepVar(r, p); err != nil {
			return fmt.Errorf("make /var writable: %w", err)
		}
	}
	memory, err := l.skeletons(p, first)
	if memory { // what is laid over the skeletons keeps them
		defer unix.Unmount(l.path(bonesDir), unix.MNT_DETACH)
	}
	if err != nil {
		return err
	}
	for _, dir := range p.changeable() {
		if err := l.overSystem(r, p, memory, dir); err != nil {
			return fmt.Errorf("make %s writable: %w", dir, err)
		}
	}
	if first {
		if err := writeShadow(); err != nil {
			return err
		}
		for name, text := range dpkgConfig(Own + "/bin/" + DpkgName) {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return os.WriteFile(l.path("system/ready"), nil, 0o600)
}

// writeShadow gives every account a line in /etc/shadow, without a password. The host's file
// cannot be read, and PAM refuses accounts that are not in it even to root.
func writeShadow() error {
	const file = "/etc/shadow"
	if info, err := os.Stat(file); err != nil || info.Size() > 0 {
		return nil
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(passwd)) {
		if name, _, ok := strings.Cut(line, ":"); ok && name != "" {
			b.WriteString(name + ":*:::::::\n")
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// keepVar lays a directory that lasts as long as the sandbox over /var, and puts the
// host's package records back into it.
func (l *Layers) keepVar(r root, p *Plan) error {
	own := l.path("system/var")
	for _, d := range []string{"", "/lib", "/cache", "/log", "/spool"} {
		if err := os.MkdirAll(own+d, 0o755); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"/tmp": "/tmp", "/run": "/run", "/lock": "/tmp"} {
		if err := os.Symlink(to, own+name); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := copyLinks("/var", own); err != nil {
		return err
	}
	records := map[string]int{}
	for _, dir := range p.System {
		if !safepath.Within(dir, "/var") {
			continue
		}
		fd, err := r.open(dir)
		if err != nil {
			return err
		}
		tree, err := clone(fd)
		unix.Close(fd)
		if err != nil {
			return err
		}
		defer unix.Close(tree)
		records[dir] = tree
	}
	from, err := l.root.open("/system/var")
	if err != nil {
		return err
	}
	defer unix.Close(from)
	at, err := r.open("/var")
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := cover(from, at, safe); err != nil {
		return err
	}
	for dir, tree := range records {
		at, err := r.make(dir, true)
		if err != nil {
			return err
		}
		err = attach(tree, at)
		unix.Close(at)
		if err != nil {
			return err
		}
	}
	return nil
}

// copyLinks copies the symbolic links directly in a directory, but for those that are there.
func copyLinks(from, to string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		link, err := os.Readlink(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.Symlink(link, filepath.Join(to, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// changeable are the system directories that root may change.
func (p *Plan) changeable() (dirs []string) {
	for _, dir := range p.System {
		if !p.within(dir) { // covering it would hide the workspace or the home
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// layerName is what the layer of a system directory is called. What an image calls its
// directories, a stranger has chosen: two of his names must not become one, nor one of ours.
func (p *Plan) layerName(dir string) string {
	if p.Owned {
		return "image" + strings.ReplaceAll(dir, "/", "/+/") // beside which are upper and work
	}
	return "system/" + strings.ReplaceAll(strings.TrimPrefix(dir, "/"), "/", "-")
}

// within says whether the home or the workspace lies below dir.
func (p *Plan) within(dir string) bool {
	for _, w := range p.Writable {
		if safepath.Within(w, dir) {
			return true
		}
	}
	return false
}
