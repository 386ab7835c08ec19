package mask

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxWatches bounds what the kernel keeps for us: about a kilobyte for each directory. Of what
// it keeps for this user at all, half is left to editors and the like. A variable for tests.
var maxWatches = func() int { return fairShare("/proc/sys/fs/inotify/max_user_watches") }

const (
	// fewWatches are taken even if that is more than half.
	fewWatches = 1 << 15
	// manyWatches are never exceeded: with them this process has some 100 MB.
	manyWatches = 1 << 19
)

// fairShare is half of the number in a file.
func fairShare(file string) int {
	text, _ := os.ReadFile(file) // without it there is no half
	all, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return min(max(all/2, fewWatches), manyWatches)
}

// A watcher hears what appears in a tree.
type watcher struct {
	t      *Tree
	shared bool
	notify *os.File
	fd     int
	most   int // watches
	dirs   map[int32]string
	files  map[int32]string // looked at again when they change
	full   bool             // some directories are not watched
	effort effort           // of what the kernel told at once
	took   time.Duration    // the last look through all of it
	told   func([]Found) error
	git    func(Found) // may be nil
	batch  []Found     // to be told
	moved  moved
	hurry  hurry
	aliases
	kept  map[string]Which // files that say what to hide
	leads map[string]led   // hidden links
}

// Watch tells what is to be hidden in the tree and appears while it waits, until the context
// ends. When it begins it looks through the whole tree, for what appeared before: that is
// told with Again unset, and may be known.
//
// What appears in a shared tree may be the sandbox's own. It is left alone for as long as
// it is empty, or the same as a template beside it, as .env.example is for .env.
func (t *Tree) Watch(ctx context.Context, what Watching) error {
	w := &watcher{t: t, shared: what.Shared, fd: -1, most: maxWatches(), dirs: map[int32]string{}, files: map[int32]string{}, told: what.Told, git: what.Repository, kept: map[string]Which{}, leads: map[string]led{}}
	w.hurry.hold = what.Hold
	w.aliases = aliases{secrets: linked{}, names: map[Which]uint32{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		w.fd, w.notify = fd, os.NewFile(uintptr(fd), "inotify")
		defer w.notify.Close()
		defer context.AfterFunc(ctx, func() { w.notify.Close() })()
	}
	begun := time.Now()
	if err := w.all(ctx, false); err != nil {
		return err
	}
	w.took = time.Since(begun)
	if w.fd >= 0 && !w.full {
		if err := w.listen(ctx, false); err != nil || ctx.Err() != nil {
			return err
		}
	}
	// The kernel keeps no more watches for this user, from the beginning or since the tree
	// has grown. So now and then all of it is looked at.
	if what.Slow != nil {
		what.Slow(w.slow())
	}
	pause := max(time.Second, 20*time.Since(begun))
	for ctx.Err() == nil {
		var err error
		if w.fd >= 0 {
			_ = w.notify.SetReadDeadline(time.Now().Add(pause))
			err = w.listen(ctx, true)
		} else {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := w.all(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// slow says that not all of the tree is watched, and which of the kernel's numbers is too low.
func (w *watcher) slow() string {
	what, number := "has more directories than can be watched", "max_user_watches"
	if w.fd < 0 {
		what, number = "cannot be watched", "max_user_instances"
	}
	return fmt.Sprintf("%s %s: files to hide that appear there are found after a second or more; raise fs.inotify.%s", w.t.Root, what, number)
}

// all looks through the whole tree. again says that all of it has to be told.
func (w *watcher) all(ctx context.Context, again bool) error {
	err := w.tree(ctx, "", again)
	if err == nil && !w.shared {
		err = w.put(Found{Gone: true}, true)
	}
	if err == nil {
		err = w.seek(ctx)
	}
	return errors.Join(err, w.flush())
}

// listen handles what the kernel tells, until the context ends or the time is over or,
// unless that is known, not everything is watched any more.
func (w *watcher) listen(ctx context.Context, full bool) (err error) {
	defer func() { err = errors.Join(err, w.hurry.end()) }()
	buf := make([]byte, 16<<10)
	for {
		n, err := w.notify.Read(buf)
		w.hurry.begin()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded) && !full: // which is for seek
			_ = w.notify.SetReadDeadline(time.Time{})
		case err != nil:
			return fmt.Errorf("watch for files to hide: %w", err)
		default:
			err = w.events(ctx, buf[:n])
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			err = errors.Join(w.seek(ctx), w.flush())
		}
		if err == nil && w.caughtUp() {
			err = w.hurry.end()
		}
		if err != nil || w.full && !full {
			return err
		}
	}
}

// tree watches a directory and all below it, and tells what there is. again says that it
// has just appeared.
func (w *watcher) tree(ctx context.Context, dir string, again bool) error {
	queue, led := []string{dir}, map[string]bool{}
	var all effort
	entries := 0
	buf := make([]byte, 0, 32<<10)
	for len(queue) > 0 && ctx.Err() == nil {
		dir := queue[0]
		queue = queue[1:]
		w.watch(dir, w.dirs, w.about())
		walk := &walk{t: w.t, ctx: ctx, also: w.secrets}
		got, err := walk.look(dir, &buf)
		if err != nil {
			return err
		}
		if entries += got.entries; entries > maxEntries {
			return &CrowdError{w.t.Root}
		}
		if all.add(got.effort); all.exceeds(entries) {
			return all.excess(w.t.Root)
		}
		if got.rules {
			w.watch(join(dir, FileName), w.files, unix.IN_CLOSE_WRITE)
			if err := w.keep(join(dir, FileName), again); err != nil {
				return err
			}
		}
		if w.git != nil {
			for _, f := range got.repositories {
				w.git(f)
			}
		}
		queue = append(queue, got.dirs...)
		for _, to := range got.led {
			if !led[to] {
				led[to] = true
				queue = append(queue, to)
			}
		}
		for _, f := range got.hidden {
			if err := w.consider(f, again); err != nil {
				return err
			}
		}
	}
	return nil
}

// about is what we want to hear of a directory: what appears. Of what goes it is only of use
// where a view of the tree does not hear of it by itself.
func (w *watcher) about() uint32 {
	about := uint32(unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK)
	if !w.shared {
		about |= unix.IN_DELETE | unix.IN_MOVED_FROM
	}
	return about
}

// watch watches a directory or a file, which is reached without following a link, and says
// whether it does.
func (w *watcher) watch(path string, in map[int32]string, what uint32) bool {
	if w.fd < 0 || len(w.dirs)+len(w.files) >= w.most {
		w.full = true
		return false
	}
	fd, err := w.t.open(path, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false // gone
	}
	defer unix.Close(fd)
	wd, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", fd), what)
	if err != nil {
		w.full = w.full || err == unix.ENOSPC || err == unix.ENOMEM
		return false
	}
	if was, known := w.dirs[int32(wd)]; known && was != path && !w.shared {
		w.moved.add(was, path)
	}
	in[int32(wd)] = path
	return true
}

// events handles what the kernel has to tell. Some of it is about the same file.
func (w *watcher) events(ctx context.Context, b []byte) error {
	changed, fresh := map[string]bool{}, false
	w.effort = effort{}
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		what := binary.NativeEndian.Uint32(b[4:])
		n := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if n > len(b) {
			break
		}
		name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:n], "\x00"))
		b = b[n:]
		switch dir, ok := w.dirs[wd]; {
		case what&unix.IN_Q_OVERFLOW != 0:
			return w.again(ctx)
		case what&unix.IN_IGNORED != 0:
			delete(w.dirs, wd)
			delete(w.files, wd)
		case ok && what&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
			if err := w.put(Found{Path: join(dir, name), Dir: what&unix.IN_ISDIR != 0, Gone: true}, true); err != nil {
				return err
			}
		case ok && name != "":
			fresh = true
			if err := w.appeared(ctx, dir, name, what&unix.IN_ISDIR != 0); err != nil {
				return err
			}
			if w.effort.exceeds(0) {
				return w.effort.excess(w.t.Root)
			}
		case w.files[wd] != "":
			changed[w.files[wd]] = true
		}
	}
	for file := range changed {
		if err := w.changed(ctx, file); err != nil {
			return err
		}
	}
	if fresh {
		return w.follow()
	}
	return nil
}

// again looks through the whole tree, because the kernel has lost count of what happened.
// Whoever floods it must not keep us busy: if it cannot be held we rest for as long as the last
// look took, and what was told meanwhile is seen in the one that follows.
func (w *watcher) again(ctx context.Context) error {
	if !w.hurry.now() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(w.took, time.Second)):
		}
	}
	w.drain()
	begun := time.Now()
	err := w.all(ctx, true)
	w.took = time.Since(begun)
	return err
}

// maxDrain is how often the kernel is asked for what it has still to tell: enough for a full
// queue of its usual length. Somebody may fill it as fast as we read, and what is left over
// is heard later.
const maxDrain = 128

// drain takes what the kernel has still to tell, and says how often it was asked.
func (w *watcher) drain() (reads int) {
	var b [64 << 10]byte
	for reads < maxDrain {
		reads++
		n, err := unix.Read(w.fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		w.forget(b[:n])
	}
	return reads
}

// forget lets go of watches that are over, and of all else that is told.
func (w *watcher) forget(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		n := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if binary.NativeEndian.Uint32(b[4:])&unix.IN_IGNORED != 0 {
			wd := int32(binary.NativeEndian.Uint32(b))
			delete(w.dirs, wd)
			delete(w.files, wd)
		}
		if n > len(b) {
			return
		}
		b = b[n:]
	}
}

// appeared is about a new entry of a directory.
func (w *watcher) appeared(ctx context.Context, dir, name string, isDir bool) error {
	at := join(dir, name)
	in := w.t.Set.In(dir)
	in.effort = &w.effort
	switch {
	case name == ".git":
		if is, kind, _ := w.t.which(at); w.git != nil && w.t.nested(dir) && kind != 0 {
			w.git(Found{Path: at, Dir: kind == unix.S_IFDIR, Which: is})
		}
		return nil
	case isDir && len(at) > maxDeep:
		return w.consider(found(&tooDeep, at, true), true)
	case name == FileName && !isDir:
		w.watch(at, w.files, unix.IN_CLOSE_WRITE)
		if err := errors.Join(w.keep(at, true), w.changed(ctx, at)); err != nil {
			return err
		}
	}
	r := in.Decide(name, isDir)
	f, same := w.same(at, isDir)
	switch {
	case same:
		return w.tell(f, true)
	case r != nil && (!isDir || !r.Looks()):
		return w.consider(found(r, at, isDir), true)
	case isDir && in.Enters(name):
		return w.tree(ctx, at, true)
	case !isDir:
		if to := w.t.leads(at); to != "" {
			return w.tree(ctx, to, true)
		}
	}
	return nil
}

// changed is about a file that was left alone so far, or says what to hide.
func (w *watcher) changed(ctx context.Context, file string) error {
	dir, name := path.Split(file)
	dir = strings.TrimSuffix(dir, "/")
	if name == FileName {
		fresh, err := w.t.readRules(dir)
		if err != nil || !fresh {
			return err
		}
		return w.tree(ctx, dir, false)
	}
	if r := w.t.Set.In(dir).Decide(name, false); r != nil {
		return w.consider(found(r, file, false), true)
	}
	return nil
}
