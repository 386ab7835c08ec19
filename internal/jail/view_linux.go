package jail

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/steps"
	"golang.org/x/sys/unix"
)

// A view is what a program in a mount namespace of its own sees: the host's own root,
// read-only, with some places writable, some of these closed again, and some covered by
// empty ones. It is written as calls of a script. The mount calls of Linux 5.12 and later
// work on descriptors, so nothing is ever visible half-made, and no path is looked up
// twice; nor is a symbolic link followed, for what is in the places may be hostile.
type view struct {
	*script
	fresh []string // the empty places, which can be written to
	made  map[string]bool
	below int // the call that opens a directory which nobody sees
}

// A mount is one that is not yet anywhere.
type mount struct {
	tree steps.Slot
	path string
	dir  bool
}

const (
	rdonly  = unix.MOUNT_ATTR_RDONLY
	safe    = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	noLinks = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// build writes the view down.
func (l *layout) build(s *script, private bool, sockets []string) *view {
	v := &view{script: s, made: map[string]bool{}}
	here := int64(unix.AT_FDCWD)
	v.Call("make mounts private", unix.SYS_MOUNT, 0, v.Text("/"), 0, unix.MS_REC|unix.MS_PRIVATE)
	// What shall be there later is taken hold of first.
	var writable, reopened, readable, nodes []mount
	for _, path := range outermost(l.write) {
		writable = append(writable, v.hold(path))
	}
	for _, path := range outermost(l.asked) {
		if within(path, l.locked()) { // opened by name in a place that is closed
			reopened = append(reopened, v.hold(path))
		}
	}
	for _, path := range l.shown(private) {
		readable = append(readable, v.hold(path))
	}
	v.Call("make everything read-only", unix.SYS_MOUNT_SETATTR, uintptr(here), v.Text("/"), unix.AT_RECURSIVE,
		steps.Data(s.List, &unix.MountAttr{Attr_set: rdonly | unix.MOUNT_ATTR_NOSUID}), unix.MOUNT_ATTR_SIZE_VER0)
	// Of a device that is on a read-only mount nothing can be changed, but all written to it.
	for _, path := range append(existing(devices), ownTerminal()) {
		if path != "" {
			nodes = append(nodes, v.hold(path))
		}
	}
	closed := v.above(l)
	v.empty("/tmp", "mode=1777,size=50%,nr_inodes=1m")
	v.empty("/run", "mode=755,size=10%,nr_inodes=64k")
	if private {
		v.empty(l.home, "mode=700,size=50%,nr_inodes=1m")
	}
	if isDir("/var/tmp") {
		v.Call("cover /var/tmp", unix.SYS_MOUNT, v.Text("/tmp"), v.Text("/var/tmp"), 0, unix.MS_BIND)
		v.fresh = append(v.fresh, "/var/tmp")
	}
	v.devices(nodes)
	for _, m := range readable {
		v.close(m)
		v.put(m)
	}
	for _, m := range writable {
		v.put(m)
	}
	v.lock(l, closed)
	for _, m := range reopened {
		v.put(m)
	}
	v.mask(sockets)
	return v
}

// hold takes hold of a place as it is now.
func (v *view) hold(path string) mount {
	return mount{v.clone(v.find(path), path), path, isDir(path)}
}

// clone makes a mount of what is open.
func (v *view) clone(at steps.Slot, path string) steps.Slot {
	return v.Result(v.Call("take hold of "+path, unix.SYS_OPEN_TREE, 0, v.Text(""),
		unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE).With(0, at))
}

// find opens a place, without following a link, for nothing but to name it.
func (v *view) find(path string) steps.Slot {
	here := int64(unix.AT_FDCWD)
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: noLinks}
	return v.Result(v.Call("find "+path, unix.SYS_OPENAT2, uintptr(here), v.Text(path), steps.Data(v.List, how), unix.SizeofOpenHow))
}

// findBelow does so from a directory above it on, which is open.
func (v *view) findBelow(from steps.Slot, above, path string) steps.Slot {
	at := v.find("." + strings.TrimPrefix(path, above))
	v.Last().With(0, from)
	return at
}

// close makes a mount read-only.
func (v *view) close(m mount) {
	v.Call("make "+m.path+" read-only", unix.SYS_MOUNT_SETATTR, 0, v.Text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		steps.Data(v.List, &unix.MountAttr{Attr_set: rdonly | safe}), unix.MOUNT_ATTR_SIZE_VER0).With(0, m.tree)
}

// put puts a mount where it belongs, making that if it is in an empty place.
func (v *view) put(m mount) {
	for _, top := range v.fresh {
		if rootfs.Within(m.path, top) {
			v.makeTarget(m, top)
			break
		}
	}
	v.attach(m.tree, v.find(m.path), m.path)
}

func (v *view) attach(tree, at steps.Slot, path string) {
	v.Call("put "+path+" in place", unix.SYS_MOVE_MOUNT, 0, v.Text(""), 0, v.Text(""),
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH).With(0, tree).With(2, at)
}

// makeTarget makes what a mount goes onto, and the directories above it.
func (v *view) makeTarget(m mount, top string) {
	here := int64(unix.AT_FDCWD)
	path := top
	parts := strings.Split(strings.TrimPrefix(m.path, top+"/"), "/")
	for i, name := range parts {
		if path = filepath.Join(path, name); v.made[path] {
			continue
		}
		v.made[path] = true
		if i == len(parts)-1 && !m.dir {
			v.Call("make "+path, unix.SYS_MKNODAT, uintptr(here), v.Text(path), unix.S_IFREG|0o644, 0).Forgive(0, unix.EEXIST)
		} else {
			v.Call("make "+path, unix.SYS_MKDIRAT, uintptr(here), v.Text(path), 0o755).Forgive(0, unix.EEXIST)
		}
	}
}

// empty covers a directory by an empty one in memory.
func (v *view) empty(path, options string) {
	if !isDir(path) {
		return
	}
	for _, top := range v.fresh {
		if rootfs.Within(path, top) { // it is empty already
			v.makeTarget(mount{path: path, dir: true}, top)
			return
		}
	}
	v.Call("cover "+path, unix.SYS_MOUNT, v.Text("coffer"), v.Text(path), v.Text("tmpfs"), unix.MS_NOSUID|unix.MS_NODEV, v.Text(options))
	v.fresh = append(v.fresh, path)
}

// devices builds a /dev: nothing in it belongs to another terminal, or is a disk.
func (v *view) devices(nodes []mount) {
	here := int64(unix.AT_FDCWD)
	v.empty("/dev", "mode=755,size=50%,nr_inodes=64k")
	for _, name := range []string{"pts", "shm"} {
		v.Call("make /dev/"+name, unix.SYS_MKDIRAT, uintptr(here), v.Text("/dev/"+name), 0o755)
		v.made["/dev/"+name] = true
	}
	v.Call("open /dev/shm", unix.SYS_FCHMODAT, uintptr(here), v.Text("/dev/shm"), 0o1777)
	v.hideaway("/dev/pts")
	v.Call("mount /dev/pts", unix.SYS_MOUNT, v.Text("devpts"), v.Text("/dev/pts"), v.Text("devpts"),
		unix.MS_NOSUID|unix.MS_NOEXEC, v.Text("newinstance,ptmxmode=0666,mode=620"))
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		v.Call("make /dev/"+name, unix.SYS_SYMLINKAT, v.Text(to), uintptr(here), v.Text("/dev/"+name))
	}
	for _, m := range nodes {
		if !slices.Contains(devices, m.path) {
			// Our own terminal, of another devpts. By this name C libraries find it.
			m.path = "/dev/console"
		}
		v.put(m)
	}
}

// above finds the writable places that have something in them which is to be closed. It is done
// when everything is read-only: what is taken from there is so, too, and need not be made so.
func (v *view) above(l *layout) map[string]steps.Slot {
	write := outermost(l.write)
	places := map[string]steps.Slot{}
	for _, path := range l.locked() {
		if place := around(write, path); place != "" && places[place] == 0 {
			places[place] = v.find(place)
		}
	}
	return places
}

// lock makes places read-only that lie in writable ones. There may be thousands, so only one
// directory that they are in is held at a time; those in the same one follow each other, mostly.
func (v *view) lock(l *layout, closed map[string]steps.Slot) {
	write := outermost(l.write)
	pinned := map[string]bool{}
	var last string
	var from, to steps.Slot
	for _, path := range l.locked() {
		place := v.pin(write, path, pinned)
		if place == "" {
			continue // closed already
		}
		pinned[path] = true
		dir, name := filepath.Dir(path), filepath.Base(path)
		if dir != last {
			if last != "" {
				v.Free(from, to)
			}
			from, to, last = v.findBelow(closed[place], place, dir), v.find(dir), dir
		}
		if slices.Contains(l.silent, path) {
			v.silence(to, name)
		} else {
			v.coverBy(from, to, name)
		}
	}
}

// coverBy lays an entry of a directory over the same entry of another view of it. A link is not
// followed, be it the entry that is laid or the one that it is laid on.
func (v *view) coverBy(from, dir steps.Slot, name string) {
	tree := v.Result(v.Call("take hold of "+name, unix.SYS_OPEN_TREE, 0, v.Text(name),
		unix.AT_SYMLINK_NOFOLLOW|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE).With(0, from))
	v.attachIn(tree, dir, name)
}

// silence lays a file without an end and without content over an entry of a directory.
func (v *view) silence(dir steps.Slot, name string) {
	here := int64(unix.AT_FDCWD)
	tree := v.Result(v.Call("take hold of /dev/null", unix.SYS_OPEN_TREE, uintptr(here), v.Text("/dev/null"), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
	v.attachIn(tree, dir, name)
}

func (v *view) attachIn(tree, dir steps.Slot, name string) {
	v.Call("put "+name+" in place", unix.SYS_MOVE_MOUNT, 0, v.Text(""), 0, v.Text(name), unix.MOVE_MOUNT_F_EMPTY_PATH).With(0, tree).With(2, dir)
	v.Free(tree)
}

// locked is all that is closed although it lies in a writable place, outer before inner.
func (l *layout) locked() []string {
	all := slices.Clone(l.lock)
	for _, place := range slices.Concat(l.reserve, l.seed) {
		all = append(all, place.Path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// cover lays a place over itself.
func (v *view) cover(path string) {
	at := v.find(path)
	tree := v.clone(at, path)
	v.attach(tree, at, path)
	v.Free(at, tree)
}

// mask covers the sockets that are there, because a read-only mount keeps nobody from
// connecting to one. It does nothing about those to come.
func (v *view) mask(sockets []string) {
	here := int64(unix.AT_FDCWD)
	for _, path := range sockets {
		at := v.find(path)
		v.Last().Forgive(2, unix.ENOENT, unix.ENOTDIR) // gone since, or covered
		null := v.Result(v.Call("take hold of /dev/null", unix.SYS_OPEN_TREE, uintptr(here), v.Text("/dev/null"),
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
		v.attach(null, at, path)
	}
}

// resolver has programs ask the far end of the wire for names: the host's own resolver may
// be at an address of its loopback interface, which is not theirs.
func (v *view) resolver(at netip.Addr) {
	file, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil || len(v.fresh) == 0 {
		return // C libraries ask 127.0.0.1 then, and are refused
	}
	here := int64(unix.AT_FDCWD)
	text, made := "nameserver "+at.String()+"\n", v.fresh[0]+"/.resolv.conf"
	fd := v.Result(v.Call("make "+made, unix.SYS_OPENAT, uintptr(here), v.Text(made), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644))
	v.Call("write "+made, unix.SYS_WRITE, 0, v.Text(text), uintptr(len(text))).With(0, fd)
	v.Call("close "+made, unix.SYS_CLOSE).With(0, fd)
	m := v.hold(made)
	v.close(m)
	m.path = file
	v.attach(m.tree, v.find(file), file)
	v.Call("forget "+made, unix.SYS_UNLINKAT, uintptr(here), v.Text(made), 0)
}

// shown lists what shall be seen, read-only, in places that are covered.
func (l *layout) shown(private bool) (paths []string) {
	covered := []string{"/run", "/tmp"}
	all := slices.Concat(runPlaces(), l.read)
	if private {
		covered = append(covered, l.home)
		all = append(all, rootfs.System(l.home)...)
	} else {
		all = append(all, l.home)
	}
	slices.Sort(all)
	for _, path := range all {
		if within(path, covered) && !within(path, l.write) && !within(path, paths) && !slices.Contains(covered, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// runPlaces are what of /run other parts of the system point to: the file that names the
// resolvers, and the programs of a system that has them there.
func runPlaces() (paths []string) {
	for _, path := range []string{"/etc/resolv.conf", "/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers"} {
		if real, err := filepath.EvalSymlinks(path); err == nil && rootfs.Within(real, "/run") {
			paths = append(paths, real)
		}
	}
	return paths
}

// outermost leaves out places that lie in others, and sorts the rest.
func outermost(paths []string) (out []string) {
	for _, p := range slices.Sorted(slices.Values(paths)) {
		if !within(p, out) {
			out = append(out, p)
		}
	}
	return out
}

// within says whether a path is one of some directories, or in one.
func within(path string, dirs []string) bool {
	for _, d := range dirs {
		if path == d || rootfs.Within(path, d) {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
