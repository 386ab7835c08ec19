package rootfs

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// bones are the skeletons of the system directories that a sandbox's root may change. Those of
// a sandbox that stays are made in its layers, once. On a disk that takes a second or two, and
// another one to remove them: for a throw-away, which would pay that each time, they are made in
// memory, as a layer between the host's directories and its own. Nobody inside can reach it, and
// it goes with the overlays. Only databases, which can be of any size, are copied to the disk.
type bones struct {
	memory root // -1 if there is none
	dirs   map[string]int
}

// prepare makes the skeletons.
func (l *Layers) prepare(p *Plan) (_ *bones, err error) {
	b := &bones{memory: root{-1}, dirs: map[string]int{}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if p.Volatile {
		if err := b.mount(l); err != nil {
			return nil, fmt.Errorf("make room in memory: %w", err)
		}
	}
	team := newTeam()
	for _, dir := range p.changeable() {
		if p.Owned && dir != "/etc" { // in which files have others over them
			continue
		}
		if err := b.build(l, team, dir, p.layerName(dir)); err != nil {
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
func (b *bones) build(l *Layers, t *team, dir, layer string) error {
	name := filepath.Join("/", layer)
	upper, err := l.root.make(filepath.Join(name, "upper"), true)
	if err != nil {
		return err
	}
	if b.memory.fd < 0 {
		b.dirs[dir] = upper
		return t.build(dir, upper, upper)
	}
	defer unix.Close(upper)
	to, err := b.memory.make(name, true)
	if err != nil {
		return err
	}
	b.dirs[dir] = to
	if dir == "/etc" {
		upper = to // all in one, see mountCopy
	}
	return t.build(dir, to, upper)
}

// of is the skeleton of a directory, if it has been made now.
func (b *bones) of(dir string) (fd int, made bool) {
	if b == nil {
		return -1, false
	}
	fd, made = b.dirs[dir]
	return fd, made
}

// over are the layers below the sandbox's own, as an overlay wants to be told.
func (b *bones) over(dir string) string {
	if fd, made := b.of(dir); made && b.memory.fd >= 0 {
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
