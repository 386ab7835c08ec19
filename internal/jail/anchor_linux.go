package jail

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/steps"
	"golang.org/x/sys/unix"
)

// A directory above a hidden file stays where it is: moved somewhere else, the file might match
// no rule the next time. For files that are there at the start such directories are mounts in
// their very places. That cannot be done while the program runs: who is below already would go
// on there, and not see what is covered later. So they become mounts in a second view of the
// context, which hangs where nobody can go. That stops renames all the same (see the anchors of
// package rootfs).

// anchors are directories that are kept in that way.
type anchors struct {
	viewed bool // there is the second view
	kept   map[string]bool
}

// maxAnchors bounds them: each takes a mount.
const maxAnchors = 1 << 14

// secondView is its name in the directory that nobody sees.
const secondView = "context"

// hideaway makes that directory in one that is about to be covered, and keeps it open.
func (v *view) hideaway(dir string) {
	here := int64(unix.AT_FDCWD)
	const what = "make a place that nobody sees"
	v.Call(what, unix.SYS_MKDIRAT, uintptr(here), v.Text(dir+"/"+secondView), 0o700)
	v.Call(what, unix.SYS_OPENAT, uintptr(here), v.Text(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	v.below = v.Len() - 1
}

// above lists the directories above all of these, from the context on, outer before inner.
func (l *late) above(list []mask.Found) (dirs []string, err error) {
	for _, f := range list {
		dirs = append(dirs, rootfs.Above(strings.TrimPrefix(f.Path, l.tree.Root+"/"))...)
	}
	slices.Sort(dirs)
	if dirs = slices.Compact(dirs); len(l.kept)+len(dirs) > maxAnchors {
		return nil, errors.New("they are in too many directories")
	}
	return dirs, nil
}

// anchor has directories kept where they are, if they are not.
func (l *late) anchor(v *view, dirs []string) {
	p := places{v.Slot(), v.Slot(), v.Slot()}
	take := func(what string) {
		v.Call("take hold of "+what, unix.SYS_OPEN_TREE, 0, v.Text(""), unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE).With(0, p.at).Into = p.tree
	}
	if !l.viewed && len(dirs) > 0 {
		v.find(l.tree.Root)
		v.Last().Into = p.at
		take(l.tree.Root)
		v.Call("find a place for the second view", unix.SYS_OPENAT, uintptr(l.below), v.Text(secondView), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC).Into = p.in
		v.attach(p.tree, p.in, "the second view")
		for _, fd := range []steps.Slot{p.tree, p.at, p.in} {
			v.Call("close", unix.SYS_CLOSE).With(0, fd)
		}
	}
	for _, dir := range dirs {
		v.findIn(p, uintptr(l.below), filepath.Join(secondView, filepath.Dir(dir)), filepath.Base(dir), putting+1)
		take(dir)
		v.putAt(p, dir)
	}
}

// anchored notes that they are.
func (l *late) anchored(dirs []string) {
	if l.kept == nil {
		l.kept = map[string]bool{}
	}
	for _, dir := range dirs {
		l.viewed, l.kept[dir] = true, true
	}
}
