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

// overSystem lays an overlay over a system directory. A name of an image's is not for the list of
// options, in which some characters mean something.
func (l *Layers) overSystem(r root, p *Plan, under *bones, name, dir string) error {
	lower := under.over(dir)
	if p.Owned && lower == dir {
		fd, err := r.open(dir)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		lower = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	return l.mount(r, p.Volatile, lower, name, dir)
}

// mountCopy puts the copy of a directory in its place. It is for /etc on hosts where files of it
// are mounts of their own, as container engines make them: the kernel refuses an overlay over
// these. The skeleton has copied the files; the links are missing the first time.
func (l *Layers) mountCopy(r root, dir, name string, b *bones, first bool) error {
	from, made := b.dirs[dir]
	if !made {
		fd, err := l.root.open(filepath.Join("/", name, "upper"))
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		from = fd
	}
	if first {
		if err := copyLinks(dir, fmt.Sprintf("/proc/self/fd/%d", from)); err != nil {
			return err
		}
	}
	at, err := r.make(dir, true)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return cover(from, at, safe)
}

// copyLinksOf copies the symbolic links directly in a directory, but for those that are there.
func copyLinksOf(from, to string) error {
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

// copyLinks copies the symbolic links below a directory.
func copyLinks(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return nil // what may not be read was not copied either
		}
		link, err := os.Readlink(path)
		if err == nil {
			err = os.Symlink(link, to+strings.TrimPrefix(path, from))
		}
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
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
// the tree of directories is made first, without the files, see [bones]. In it new files
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
	under, err := l.prepare(p, first)
	if err != nil {
		return err
	}
	defer under.close()
	for _, dir := range p.changeable() {
		name := p.layerName(dir)
		err := l.overSystem(r, p, under, name, dir)
		if dir == "/etc" && errors.Is(err, unix.EINVAL) {
			err = l.mountCopy(r, dir, name, under, first)
		}
		if err != nil {
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
	if err := copyLinksOf("/var", own); err != nil {
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
