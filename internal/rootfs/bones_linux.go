package rootfs

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// bones are the skeletons of the system directories that a sandbox's root may change. They are
// made in memory at each start, as a layer between the host's directories and the sandbox's own:
// on a disk they take seconds to make and seconds to remove. Nobody inside can reach that layer,
// and it goes with the overlays. What is on the disk, in the sandbox's own layer: databases, which
// can be of any size; /etc, which some hosts let nobody overlay; and, on a kernel whose memory
// file system is too old, everything.
type bones struct {
	memory root           // -1 if there is none
	dirs   map[string]int // skeletons in memory
}

// prepare makes the skeletons. What goes to the disk is made the first time only.
func (l *Layers) prepare(p *Plan, first bool) (_ *bones, err error) {
	b := &bones{memory: root{-1}, dirs: map[string]int{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := b.mount(l); err != nil {
		return nil, fmt.Errorf("make room in memory: %w", err)
	}
	team := newTeam()
	for _, dir := range p.changeable() {
		if p.Owned && dir != "/etc" { // in which files have others over them
			continue
		}
		onDisk := b.memory.fd < 0 || dir == "/etc" && !p.Volatile
		if onDisk && !first {
			continue
		}
		if err := b.build(l, team, dir, p.layerName(dir), onDisk, first); err != nil {
			team.fail(fmt.Errorf("prepare %s: %w", dir, err))
			break
		}
	}
	return b, team.wait()
}

// mount brings memory into the sandbox, where programs cannot see it. Before Linux 6.6 it has no
// attributes, which skeletons need, and the disk has to do.
func (b *bones) mount(l *Layers) error {
	fd, err := newfs("tmpfs", "mode=755,size=10%,nr_inodes=1m", safe)
	if err != nil {
		return err
	}
	if err := unix.Setxattr(fmt.Sprintf("/proc/self/fd/%d", fd), opaque, []byte("n"), 0); err != nil {
		unix.Close(fd)
		return nil
	}
	at, err := l.root.make("/system/bones", true)
	if err == nil {
		err = attach(fd, at)
		unix.Close(at)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	b.memory.fd = fd
	return nil
}

// build has the skeleton of a directory made.
func (b *bones) build(l *Layers, t *team, dir, layer string, onDisk, first bool) error {
	name := filepath.Join("/", layer)
	upper, err := l.root.make(filepath.Join(name, "upper"), true)
	if err != nil {
		return err
	}
	defer unix.Close(upper)
	if onDisk {
		return t.build(dir, upper, upper, first)
	}
	to, err := b.memory.make(name, true)
	if err != nil {
		return err
	}
	b.dirs[dir] = to
	if dir == "/etc" {
		upper = to // all in one, see mountCopy
	}
	return t.build(dir, to, upper, first)
}

// over are the layers below the sandbox's own, as an overlay wants to be told.
func (b *bones) over(dir string) string {
	if fd, made := b.dirs[dir]; made {
		return fmt.Sprintf("/proc/self/fd/%d:%s", fd, dir)
	}
	return dir
}

// close lets go of the skeletons. What is laid over them still has them.
func (b *bones) close() {
	for _, fd := range b.dirs {
		unix.Close(fd)
	}
	if b.memory.fd >= 0 {
		_ = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", b.memory.fd), unix.MNT_DETACH)
		unix.Close(b.memory.fd)
	}
}
