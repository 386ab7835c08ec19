package hidden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

const (
	// watchAfter is when the watch begins. A short run does not pay for it.
	watchAfter = 40 * time.Millisecond
	// coverPatience is how long the guest may take to cover files.
	coverPatience = 20 * time.Second
	// maxCovered is how many places the guest is told of at once.
	maxCovered = 512
)

// Start watches for what appears on the host, until the context ends.
func (f *Files) Start(life context.Context) {
	f.life = life
	if len(f.trees) == 0 {
		return
	}
	for _, t := range f.trees {
		t.Listen()
	}
	f.work.Go(func() {
		if !sleep(life, watchAfter) {
			return
		}
		if n := MarkTracked(f.Noted(), f.sb.Workspace.Path); n > 0 {
			f.host.Tell(fmt.Sprintf("hidden files that git has can be read in its history (%d of them): see 'coffer masks'", n))
		}
		f.warnNested(f.trees[0])
		for _, t := range f.trees {
			f.work.Go(func() { f.watch(t) })
		}
	})
}

// Close ends the watch, and looks for repositories that were made last. The context of Start has
// ended, and nothing runs any more.
func (f *Files) Close() {
	f.work.Wait()
	if f.life != nil {
		f.lookForNested()
	}
	for _, t := range f.trees {
		t.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watch watches what appears in one of the directories, until the sandbox ends.
func (f *Files) watch(t *tree) {
	failed := func(err error) {
		if err != nil && f.life.Err() == nil {
			f.host.Once(fmt.Sprintf("files that appear in %s can be read until the next command starts: %s", t.Root, err), nil)
		}
	}
	failed(t.Watch(f.life, mask.Watching{Shared: t.shared, Repository: f.repositories(t), Blind: f.host.Tell,
		Told: func(list []mask.Found) { failed(f.hide(t, list)) }}))
}

// HideNew hides what was not there when the last program started. If it cannot, no other program
// starts.
func (f *Files) HideNew() error {
	for _, t := range f.trees {
		r, err := t.Scan(f.life)
		if err != nil {
			err = Problem(err)
			return fmt.Errorf("%w; %s", err, ui.HintOf(err)) // programs answer without hints
		}
		list := r.Hidden
		if t.shared {
			list = slices.DeleteFunc(list, func(found mask.Found) bool {
				f.mu.Lock()
				_, known := f.known[filepath.Join(t.Root, found.Path)]
				f.mu.Unlock()
				return !known && t.Harmless(found)
			})
		}
		if err := f.hide(t, list); err != nil {
			return fmt.Errorf("hide what has appeared in %s: %w", t.Root, err)
		}
	}
	return nil
}

// hide hides what has appeared. What could not be hidden is tried again when the next program
// starts.
func (f *Files) hide(t *tree, list []mask.Found) error {
	var places [][]byte
	var whose []mask.Found
	for _, found := range list {
		if f.note(t, found) {
			continue
		}
		for _, at := range f.inside(t, found) {
			places, whose = append(places, at), append(whose, found)
		}
	}
	if f.full() {
		f.forget(t, whose)
		return fmt.Errorf("%w files to hide", mask.ErrTooMany)
	}
	for len(places) > 0 {
		n := min(len(places), maxCovered)
		missing, err := f.cover(places[:n])
		if err != nil {
			f.forget(t, whose)
			return err
		}
		for _, i := range missing { // in a copy-on-write view, it may come to be seen later
			f.forget(t, whose[i:i+1])
		}
		places, whose = places[n:], whose[n:]
	}
	return nil
}

// full says whether too many files are hidden. Those that are gone do not count: in a workspace
// that programs inside share with the user, files may come and go all day.
func (f *Files) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) <= mask.MaxHidden {
		return false
	}
	maps.DeleteFunc(f.known, func(path string, _ File) bool { return f.gone(path) })
	return len(f.known) > mask.MaxHidden
}

// forget has files be hidden anew.
func (f *Files) forget(t *tree, list []mask.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, found := range list {
		delete(f.known, filepath.Join(t.Root, found.Path))
	}
}

// cover has the guest hide places, and returns which of them are not there.
func (f *Files) cover(places [][]byte) (missing []int, err error) {
	e, err := f.host.Ask(wire.Request{Op: wire.OpMasks, Hide: places}, coverPatience)
	if err != nil {
		return nil, err
	}
	var said []string
	if err := json.Unmarshal(e.Masks, &said); err != nil || len(said) != len(places) {
		return nil, errors.New("the guest did not say whether it is hidden")
	}
	for i, what := range said {
		switch what {
		case "":
		case wire.NotThere:
			missing = append(missing, i)
		default:
			return nil, errors.New(what)
		}
	}
	return missing, nil
}
