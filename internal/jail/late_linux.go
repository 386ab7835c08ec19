package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/steps"
	"github.com/cofferhq/coffer/internal/terminal"
	"golang.org/x/sys/unix"
)

// Files that are to be hidden may appear while the program runs. A watch on the context hears
// of them, as it does for a sandbox, and a forked process enters the program's namespaces
// and covers them there.

// watchAfter is when the watch begins. A short program does not pay for it.
const watchAfter = 40 * time.Millisecond

// late hides what appears in the context of a program that runs.
type late struct {
	*jail
	user   *door    // to enter first, nil for none
	from   *os.File // by which the program's mounts and root come
	mounts int
	root   int
	script *script // which sends them
	hidden map[string]mask.Which
	tree   *mask.Tree
	stop   context.CancelFunc
}

// watchLate writes into the script that its process hands out the way to its mounts.
func (p *performance) watchLate(s *script, h hidden) (theirs *os.File, err error) {
	p.late = &late{jail: p.jail, script: s, tree: h.tree, hidden: map[string]mask.Which{}}
	for _, f := range h.paths {
		p.late.hidden[f.Path] = f.Which
	}
	if p.late.from, theirs, err = socketPair(); err != nil {
		return nil, err
	}
	here := int64(unix.AT_FDCWD)
	made := []int{s.door("mnt")}
	s.Call("find the root", unix.SYS_OPENAT, uintptr(here), s.Text("/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	s.send(int(theirs.Fd()), append(made, s.Len()-1))
	return theirs, nil
}

// begin begins to watch. If something cannot be hidden, kill ends the program.
func (l *late) begin(sp *spaces, kill func()) {
	for i := range sp.doors {
		if sp.doors[i].flag == unix.CLONE_NEWUSER {
			l.user = &sp.doors[i]
		}
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchAfter):
		}
		err := l.watch(ctx)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(l.say, "coffer: the program is ended, because files that appear in %s could not be hidden from it any more: %s\n",
				terminal.Escape(l.layout.context), terminal.Escape(err.Error()))
			kill()
		}
	}()
}

// end ends the watch. Nobody waits for that, nor closes what it uses: this process is about
// to end.
func (l *late) end() {
	l.stop()
}

// close is for one whose program did not start.
func (l *late) close() { l.from.Close() }

func (l *late) watch(ctx context.Context) error {
	files, err := l.script.receive(l.from, 2)
	if err != nil {
		return err
	}
	l.mounts, l.root = files[0], files[1]
	return l.tree.Watch(ctx, true, func(f mask.Found, again bool) error {
		f.Path = filepath.Join(l.tree.Root, f.Path)
		was, known := l.hidden[f.Path]
		switch {
		case slices.Contains(l.Write, f.Path):
			return nil
		case f.Keep:
			return l.hide(f)
		case known && was == f.Which && !again:
			return nil
		}
		if len(l.hidden) >= mask.MaxHidden {
			return fmt.Errorf("%w files to hide", mask.ErrTooMany)
		}
		if err := l.hide(f); err != nil {
			return err
		}
		l.hidden[f.Path] = f.Which
		return nil
	})
}

// hide covers one place, in the program's view: a file by a device, on a mount without
// devices, a directory by one that is empty and closed, and a file that says what to hide by
// itself, closed. What has gone since needs nothing, and of what was put in its place the watch
// hears.
func (l *late) hide(f mask.Found) error {
	v := &view{script: newScript()}
	s := v.script
	if l.user != nil {
		s.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.user.file), l.user.flag)
	}
	s.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.mounts), unix.CLONE_NEWNS)
	s.Call("enter the root", unix.SYS_FCHDIR, uintptr(l.root))
	s.Call("enter the root", unix.SYS_CHROOT, s.Text("."))
	var tree steps.Slot
	left := 1 // steps after the place is found
	switch here := int64(unix.AT_FDCWD); {
	case f.Keep:
		left = 3
	case f.Dir:
		tree = v.closedDirectory()
	default:
		tree = v.Result(s.Call("take hold of /dev/null", unix.SYS_OPEN_TREE, uintptr(here), s.Text("/dev/null"),
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
		v.close(mount{tree: tree, path: "a cover"})
	}
	in := v.find(filepath.Dir(f.Path))
	s.Last().Forgive(left+1, unix.ENOENT, unix.ENOTDIR, unix.ELOOP)
	// What is covered already is on another mount than its directory.
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: noLinks | unix.RESOLVE_NO_XDEV}
	at := v.Result(s.Call("find "+f.Path, unix.SYS_OPENAT2, 0, s.Text(filepath.Base(f.Path)), steps.Data(s.List, how), unix.SizeofOpenHow).With(0, in).
		Forgive(left, unix.ENOENT, unix.ELOOP, unix.EXDEV))
	if f.Keep {
		tree = v.Result(s.Call("take hold of "+f.Path, unix.SYS_OPEN_TREE, 0, s.Text(""), unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).With(0, at))
		v.close(mount{tree: tree, path: f.Path})
	}
	v.attach(tree, at, f.Path)
	s.Last().Forgive(0, unix.ENOENT, unix.ENOTDIR) // gone, or another kind of thing now
	s.Act("end", steps.Ready)
	if _, err := s.Run(); !errors.Is(err, steps.ErrReady) {
		return fmt.Errorf("hide %s: %w", f.Path, err)
	}
	return nil
}

// closedDirectory makes a file system that is one closed directory.
func (v *view) closedDirectory() steps.Slot {
	const what = "make a closed directory"
	fs := v.Result(v.Call(what, unix.SYS_FSOPEN, v.Text("tmpfs"), unix.FSOPEN_CLOEXEC))
	v.Call(what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_SET_STRING, v.Text("mode"), v.Text("0"), 0).With(0, fs)
	v.Call(what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_CMD_CREATE, 0, 0, 0).With(0, fs)
	return v.Result(v.Call(what, unix.SYS_FSMOUNT, 0, unix.FSMOUNT_CLOEXEC, rdonly|safe).With(0, fs))
}
