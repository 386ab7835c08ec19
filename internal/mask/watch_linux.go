package mask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fsnotify/fsnotify"
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

// maxTold is how many are told at once.
const maxTold = 512

// A watcher watches directories by their paths. A program inside may replace one by a link; events
// from elsewhere mean nothing, as all names are looked up in the tree without following links.
type watcher struct {
	Watching
	t     *Tree
	fs    *fsnotify.Watcher
	most  int
	dirs  map[string]bool // that are watched
	blind bool            // some are not, and that was said
	batch []Found
}

// Listen opens what Watch hears by. Call it before any program runs that could take all that the
// user may have of it.
func (t *Tree) Listen() {
	if t.events == nil {
		t.events, _ = fsnotify.NewWatcher() // Watch tries again
	}
}

// Watch walks the tree, and then reports what appears in it and is to be hidden, until the context
// ends. It is no wall: a program may read a file in the moment in which it appears, or keep the
// watch busy. What the watch misses, the next [Tree.Scan] finds.
func (t *Tree) Watch(ctx context.Context, what Watching) error {
	w := &watcher{Watching: what, t: t, most: maxWatches(), dirs: map[string]bool{}}
	if t.Listen(); t.events == nil {
		w.sayBlind("cannot be watched", "max_user_instances")
		return nil
	}
	w.fs = t.events
	defer w.fs.Close()
	err := w.enter(ctx, "")
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.fs.Events:
			err = w.event(ctx, e)
		case err = <-w.fs.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) { // it is not known what happened
				err = w.enter(ctx, "")
			}
		}
	}
	return err
}

// sayBlind says once that not all of the tree is watched, and which of the kernel's numbers is too low.
func (w *watcher) sayBlind(what, number string) {
	if !w.blind && w.Blind != nil {
		w.Blind(fmt.Sprintf("%s %s: files to hide that appear there are hidden when the next command starts; raise fs.inotify.%s", w.t.Root, what, number))
	}
	w.blind = true
}

// enter watches a directory and all below it, and reports what there is to hide.
func (w *watcher) enter(ctx context.Context, dir string) error {
	all := &walk{t: w.t, led: map[string]bool{}}
	for queue := []string{dir}; len(queue) > 0 && ctx.Err() == nil; queue = queue[1:] {
		w.watch(queue[0])
		got, err := all.look(queue[0])
		if err != nil {
			return err
		}
		if w.Repository != nil {
			for _, f := range got.repositories {
				w.Repository(f)
			}
		}
		for _, f := range got.hidden {
			w.tell(f)
		}
		queue = append(queue, all.take(queue[0], got)...)
	}
	w.flush()
	return nil
}

// watch watches a directory.
func (w *watcher) watch(dir string) {
	if w.dirs[dir] {
		return
	}
	err := error(unix.ENOSPC)
	if len(w.dirs) < w.most {
		err = w.fs.Add(path.Join(w.t.Root, dir))
	}
	switch {
	case err == nil:
		w.dirs[dir] = true
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM):
		w.sayBlind("has more directories than can be watched", "max_user_watches")
	}
}

// unwatch forgets a directory that was renamed, and those below: they are watched by their old paths.
func (w *watcher) unwatch(dir string) {
	if !w.dirs[dir] {
		return
	}
	for d := range w.dirs {
		if d == dir || strings.HasPrefix(d, dir+"/") {
			_ = w.fs.Remove(path.Join(w.t.Root, d))
			delete(w.dirs, d)
		}
	}
}

// event handles one thing that happened.
func (w *watcher) event(ctx context.Context, e fsnotify.Event) error {
	at, ok := strings.CutPrefix(e.Name, strings.TrimSuffix(w.t.Root, "/")+"/")
	switch {
	case !ok:
		return nil
	case e.Has(fsnotify.Rename) || e.Has(fsnotify.Remove):
		w.unwatch(at)
		return nil
	case !e.Has(fsnotify.Create) && !e.Has(fsnotify.Write):
		return nil
	}
	defer w.flush()
	dir, name := path.Split(at)
	dir = strings.TrimSuffix(dir, "/")
	in := w.t.Set.In(dir)
	is, kind, _ := w.t.which(at)
	switch {
	case kind == 0: // gone
	case name == ".git":
		if w.Repository != nil && e.Has(fsnotify.Create) && w.t.nested(dir) {
			w.Repository(Found{Path: at, Dir: kind == unix.S_IFDIR, Which: is})
		}
	case kind == unix.S_IFDIR && len(at) > maxDeep: // the next start hides it
	case kind == unix.S_IFDIR:
		if r := in.Decide(name, true); r != nil && !r.Looks() {
			w.tell(w.found(r, at, true, is))
		} else if in.Enters(name) {
			return w.enter(ctx, at)
		}
	default:
		return w.file(ctx, in, at, kind, is)
	}
	return nil
}

// file handles a file that appeared or was written to.
func (w *watcher) file(ctx context.Context, in Dir, at string, kind uint16, is Which) error {
	dir, name := path.Split(at)
	if name == FileName && kind == unix.S_IFREG {
		if fresh, err := w.t.readRules(strings.TrimSuffix(dir, "/")); err != nil || fresh {
			return errors.Join(err, w.enter(ctx, strings.TrimSuffix(dir, "/")))
		}
	}
	r := in.Decide(name, false)
	switch {
	case r != nil && w.t.confirms(r, at):
		w.tell(w.found(r, at, false, is))
		if to, isDir := w.t.behind(at); kind == unix.S_IFLNK && to != "" {
			is, _, _ := w.t.which(to)
			w.tell(w.found(r, to, isDir, is))
		}
	case r == nil && kind == unix.S_IFLNK:
		if to := w.t.leads(at); to != "" {
			return w.enter(ctx, to)
		}
	}
	return nil
}

func (w *watcher) found(r *Rule, at string, dir bool, is Which) Found {
	f := found(r, at, dir)
	f.Which = is
	return f
}

// tell keeps something to tell, unless it gives nothing away.
func (w *watcher) tell(f Found) {
	if w.Shared && w.t.Harmless(f) {
		return
	}
	if w.batch = append(w.batch, f); len(w.batch) >= maxTold {
		w.flush()
	}
}

// flush tells what was kept.
func (w *watcher) flush() {
	if len(w.batch) > 0 {
		w.Told(w.batch)
		w.batch = nil
	}
}

// templates are what the names of files to copy end in.
var templates = []string{".example", ".sample", ".template", ".dist", ".defaults"}

// maxTemplate is the longest file that is compared.
const maxTemplate = 64 << 10

// Harmless says that a file is empty, or has the very bytes of a template beside it.
func (t *Tree) Harmless(f Found) bool {
	file := f.Path
	st, err := t.stat(file)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if st.Size == 0 {
		return true
	}
	content, err := t.read(file, maxTemplate)
	if err != nil || len(content) > maxTemplate {
		return false
	}
	self, _, _ := t.which(file)
	dir, name := path.Split(file)
	beside := []string{name}
	if strings.HasPrefix(name, ".env.") {
		beside = append(beside, ".env")
	}
	return slices.ContainsFunc(beside, func(name string) bool {
		return slices.ContainsFunc(templates, func(end string) bool {
			// The same file, by a name that somebody inside has made, is no template for itself.
			if is, _, _ := t.which(dir + name + end); is == self || t.Hides(dir+name+end, false) != nil {
				return false
			}
			same, err := t.read(dir+name+end, maxTemplate)
			return err == nil && bytes.Equal(same, content)
		})
	})
}
