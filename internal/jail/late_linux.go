package jail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	first  int      // the program's process
	kill   func()   // ends it, and all others
	user   *door    // to enter first, nil for none
	pids   *door    // the processes to hold, nil if they are not apart
	from   *os.File // by which the program's mounts and root come
	mounts int
	root   int
	below  int     // a directory that no program sees, see anchors
	script *script // which sends them
	hidden map[string]mask.Which
	tree   *mask.Tree
	stop   context.CancelFunc
	begun  atomic.Bool                   // to watch, or to end before that
	given  sync.Once                     // up
	saying atomic.Pointer[chan struct{}] // the last sentence; closed when it was said
	ended  atomic.Bool                   // the program has
	enough chan struct{}                 // somebody does not want to hear more
	anchors
	pause
}

// watchLate writes into the script that its process hands out the way to its mounts.
func (p *performance) watchLate(s *script, below int, h hidden) (theirs *os.File, err error) {
	p.late = &late{jail: p.jail, script: s, tree: h.tree, hidden: map[string]mask.Which{}, enough: make(chan struct{}, 1)}
	for _, f := range h.paths {
		p.late.hidden[f.Path] = f.Which
	}
	if p.late.from, theirs, err = socketPair(); err != nil {
		return nil, err
	}
	// The process's copy of our end: it could not tell that we are gone.
	s.Call("hang up", unix.SYS_CLOSE, p.late.from.Fd())
	here := int64(unix.AT_FDCWD)
	made := []int{s.door("mnt")}
	s.Call("find the root", unix.SYS_OPENAT, uintptr(here), s.Text("/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	s.send(int(theirs.Fd()), append(made, s.Len()-1, below))
	return theirs, nil
}

// begin begins to watch. If something cannot be hidden, kill ends the program.
func (l *late) begin(sp *spaces, program int, kill func()) {
	l.first, l.kill = program, kill
	for i := range sp.doors {
		switch sp.doors[i].flag {
		case unix.CLONE_NEWUSER:
			l.user = &sp.doors[i]
		case unix.CLONE_NEWPID:
			l.pids = &sp.doors[i]
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
		if !l.begun.CompareAndSwap(false, true) {
			return
		}
		if err := l.watch(ctx); err != nil && ctx.Err() == nil {
			l.giveUp(err)
		}
	}()
}

// giveUp ends the program, because nothing can be hidden from it any more.
func (l *late) giveUp(err error) {
	l.given.Do(func() {
		l.tell(fmt.Sprintf("the program is ended, because files that appear in %s could not be hidden from it any more: %v", l.layout.context, err))
		l.kill()
	})
}

// tell says why something is about to be ended. It waits for a moment only: a program can have filled
// what it shares with this process, and nobody need read that.
func (l *late) tell(sentence string) {
	said := make(chan struct{})
	l.saying.Store(&said)
	go func() {
		defer close(said)
		fmt.Fprintf(l.say, "coffer: %s\n", terminal.Escape(sentence))
	}()
	select {
	case <-said:
	case <-time.After(20 * time.Millisecond):
	}
}

// lastWords is how long it may take to say why a program was ended, when it has.
var lastWords = 10 * time.Second

// heard waits for what is still being said, unless somebody wants us to end. Nobody is there any
// more who could use the time.
func (l *late) heard() {
	said := l.saying.Load()
	if said == nil {
		return
	}
	select {
	case <-*said:
	case <-l.enough:
	case <-time.After(lastWords):
	}
}

// cut says whether the program has ended, whose number may be another's by now: then a signal is
// for us, and cuts short what is still being said.
func (l *late) cut(s unix.Signal) bool {
	if l == nil || !l.ended.Load() {
		return false
	}
	switch s {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT:
	default:
		select {
		case l.enough <- struct{}{}:
		default:
		}
	}
	return true
}

// end ends the watch. Nobody waits for that, nor closes what it uses: this process is about
// to end. If there was none yet, the program's mounts go meanwhile: a name that is given back
// while something is mounted on it takes the kernel several times as long.
func (l *late) end() {
	l.ended.Store(true)
	l.stop()
	if l.begun.CompareAndSwap(false, true) {
		go l.close()
	}
}

// close is for one that did not watch.
func (l *late) close() { l.from.Close() }

func (l *late) watch(ctx context.Context) error {
	files, err := l.script.receive(l.from, 3)
	if err != nil {
		return err
	}
	l.mounts, l.root, l.below = files[0], files[1], files[2]
	what := mask.Watching{Shared: true, Told: l.told, Slow: l.tell}
	if l.pids != nil {
		what.Hold = l.hold
	}
	return l.tree.Watch(ctx, what)
}

// told hides what has appeared.
func (l *late) told(list []mask.Found) error {
	var fresh []mask.Found
	for _, f := range list {
		f.Path = filepath.Join(l.tree.Root, f.Path)
		was, known := l.hidden[f.Path]
		switch {
		case slices.Contains(l.layout.asked, f.Path), !f.Keep && known && was == f.Which && !f.Again:
			continue
		case !f.Keep:
			l.hidden[f.Path] = f.Which
		}
		fresh = append(fresh, f)
	}
	if len(fresh) == 0 {
		return nil
	}
	if len(l.hidden) > mask.MaxHidden {
		maps.DeleteFunc(l.hidden, func(path string, _ mask.Which) bool { return l.tree.Gone(strings.TrimPrefix(path, l.tree.Root+"/")) })
	}
	if len(l.hidden) > mask.MaxHidden {
		return fmt.Errorf("%w files to hide", mask.ErrTooMany)
	}
	return l.hide(fresh)
}

// enter begins a script in the program's view.
func (l *late) enter() *view {
	v := &view{script: newScript()}
	if l.user != nil {
		v.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.user.file), l.user.flag)
	}
	v.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.mounts), unix.CLONE_NEWNS)
	v.Call("enter the root", unix.SYS_FCHDIR, uintptr(l.root))
	v.Call("enter the root", unix.SYS_CHROOT, v.Text("."))
	return v
}

// hide covers places in the program's view: a file by a device, on a mount without devices, a
// directory by one that is empty and closed, and a file that says what to hide by itself,
// closed. First the directories above are kept where they are: the place is the one that was
// meant then. What has gone since needs nothing, and of what was put in its place the watch
// hears.
func (l *late) hide(list []mask.Found) error {
	v := l.enter()
	dirs, err := l.above(list)
	if err != nil {
		return err
	}
	l.anchor(v, dirs)
	at := places{v.Slot(), v.Slot(), v.Slot()}
	for _, f := range list {
		v.coverLate(f, at)
	}
	v.Act("end", steps.Ready)
	if _, err := v.Run(); !errors.Is(err, steps.ErrReady) {
		return fmt.Errorf("hide %s: %w", list[0].Path, err)
	}
	l.anchored(dirs)
	return nil
}

// places are slots that are used again and again.
type places struct{ in, at, tree steps.Slot }

// findIn finds an entry of a directory, which is found first, if it is not covered already:
// then it is on another mount than its directory. If it is not found, as many calls are left
// out as use it, and the one that closes the directory is made.
func (v *view) findIn(p places, from uintptr, dir, name string, uses int) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: noLinks}
	v.Call("find "+dir, unix.SYS_OPENAT2, from, v.Text(dir), steps.Data(v.List, how), unix.SizeofOpenHow).
		Forgive(uses+2, unix.ENOENT, unix.ENOTDIR, unix.ELOOP).Into = p.in
	how = &unix.OpenHow{Flags: how.Flags, Resolve: noLinks | unix.RESOLVE_NO_XDEV}
	v.Call("find "+dir+"/"+name, unix.SYS_OPENAT2, 0, v.Text(name), steps.Data(v.List, how), unix.SizeofOpenHow).With(0, p.in).
		Forgive(uses, unix.ENOENT, unix.ELOOP, unix.EXDEV).Into = p.at
}

// putting is how many calls of putAt use what was found.
const putting = 3

// putAt puts a mount onto what was found, unless that is gone, or another kind of thing now, and
// lets go of all.
func (v *view) putAt(p places, path string) {
	v.attach(p.tree, p.at, path)
	v.Last().Forgive(0, unix.ENOENT, unix.ENOTDIR)
	v.Call("close", unix.SYS_CLOSE).With(0, p.tree)
	v.Call("close", unix.SYS_CLOSE).With(0, p.at)
	v.Call("close", unix.SYS_CLOSE).With(0, p.in)
}

// coverLate covers one place.
func (v *view) coverLate(f mask.Found, p places) {
	here := int64(unix.AT_FDCWD)
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	uses := putting + 2
	if f.Dir {
		uses = putting + 5
	}
	v.findIn(p, uintptr(here), filepath.Dir(f.Path), filepath.Base(f.Path), uses)
	switch {
	case f.Keep:
		v.Call("take hold of "+f.Path, unix.SYS_OPEN_TREE, 0, v.Text(""), clone|unix.AT_EMPTY_PATH).With(0, p.at).Into = p.tree
		v.close(mount{tree: p.tree, path: f.Path})
	case f.Dir:
		v.closedDirectory(p.tree)
	default:
		v.Call("take hold of /dev/null", unix.SYS_OPEN_TREE, uintptr(here), v.Text("/dev/null"), clone).Into = p.tree
		v.close(mount{tree: p.tree, path: "a cover"})
	}
	v.putAt(p, f.Path)
}

// closedDirectory makes a file system that is one closed directory, in five calls.
func (v *view) closedDirectory(tree steps.Slot) {
	const what = "make a closed directory"
	fs := v.Result(v.Call(what, unix.SYS_FSOPEN, v.Text("tmpfs"), unix.FSOPEN_CLOEXEC))
	v.Call(what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_SET_STRING, v.Text("mode"), v.Text("0"), 0).With(0, fs)
	v.Call(what, unix.SYS_FSCONFIG, 0, unix.FSCONFIG_CMD_CREATE, 0, 0, 0).With(0, fs)
	v.Call(what, unix.SYS_FSMOUNT, 0, unix.FSMOUNT_CLOEXEC, rdonly|safe).With(0, fs).Into = tree
	v.Call(what, unix.SYS_CLOSE).With(0, fs)
}
