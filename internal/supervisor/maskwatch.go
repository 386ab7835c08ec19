package supervisor

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

// watchAfter is when the watch begins. A short run does not pay for it.
const watchAfter = 40 * time.Millisecond

// watchMasks starts to hear of what appears on the host.
func (s *Supervisor) watchMasks() {
	s.masks.life, s.masks.stop = context.WithCancel(context.Background())
	all := s.masks.trees()
	if len(all) == 0 {
		return
	}
	s.masks.ended.Go(func() {
		if !outlives(s, time.After(watchAfter)) {
			return
		}
		s.warnTracked()
		s.warnNested(all[0], s.notices.once)
		for _, one := range all {
			s.masks.ended.Go(func() { s.watchTree(one) })
		}
	})
}

// outlives waits for something, and says whether the sandbox is still there then.
func outlives[T any](s *Supervisor, c <-chan T) bool {
	select {
	case <-s.masks.life.Done():
		return false
	case <-s.session.CloseChan():
		return false
	case <-c:
		return true
	}
}

// tellSomebody tells who listens, or who does next. It is false if the sandbox ends before, or if
// he is gone again or has more to read than he can.
func (s *Supervisor) tellSomebody(line string) bool {
	return outlives(s, s.notices.heard()) && s.notices.tellNow(line)
}

// watchTree watches what appears in one of the directories, until the sandbox ends.
func (s *Supervisor) watchTree(one *shown) {
	said := func(err error) {
		if err != nil && s.masks.life.Err() == nil && !s.session.IsClosed() {
			s.notices.once(fmt.Sprintf("files that appear in %s can be read until the next command starts: %s", one.tree.Root, err))
		}
	}
	said(one.tree.Watch(s.masks.life, mask.Watching{Shared: one.shared, Repository: s.repositories(one), Blind: s.notices.tell,
		Told: func(list []mask.Found) { said(s.hide(one, list)) }}))
}

// unwatchMasks ends it.
func (s *Supervisor) unwatchMasks() {
	if s.masks.stop != nil {
		s.masks.stop()
	}
	s.masks.ended.Wait()
	s.lookForNested(context.Background())
	for _, one := range s.masks.trees() {
		one.tree.Close()
	}
}

// hideNew looks for what is to be hidden and was not there when the last program started. If it
// cannot be hidden, no other one starts.
func (s *Supervisor) hideNew() error {
	for _, one := range s.masks.trees() {
		r, err := one.tree.Scan(s.masks.life)
		if err != nil {
			err = MaskProblem(err)
			return fmt.Errorf("%w; %s", err, ui.HintOf(err)) // no hint goes by where programs answer
		}
		list := r.Hidden
		if one.shared {
			list = slices.DeleteFunc(list, func(f mask.Found) bool { return !s.masks.knows(one.tree.Root, f.Path) && one.tree.Harmless(f) })
		}
		if err := s.hide(one, list); err != nil {
			return fmt.Errorf("hide what has appeared in %s: %w", one.tree.Root, err)
		}
	}
	return nil
}

// knows says whether a path is hidden already.
func (m *masks) knows(root, path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.hidden[filepath.Join(root, path)]
	return known
}

// hide hides what has appeared. What could not be hidden is tried again when the next program
// starts.
func (s *Supervisor) hide(one *shown, list []mask.Found) error {
	var places [][]byte
	var whose []mask.Found
	for _, f := range list {
		if s.note(one.tree.Root, f) {
			continue
		}
		for _, c := range s.masks.inside(one.tree.Root, f) {
			places, whose = append(places, c), append(whose, f)
		}
	}
	if s.masks.full() {
		s.masks.forget(one.tree.Root, whose)
		return fmt.Errorf("%w files to hide", mask.ErrTooMany)
	}
	for len(places) > 0 {
		n := min(len(places), maxCovered)
		missing, err := s.cover(places[:n])
		if err != nil {
			s.masks.forget(one.tree.Root, whose)
			return err
		}
		for _, i := range missing { // in a copy-on-write view, it may come to be seen later
			s.masks.forget(one.tree.Root, whose[i:i+1])
		}
		places, whose = places[n:], whose[n:]
	}
	return nil
}

// full says that too many files are hidden. Those that are gone do not count: in a workspace
// that programs inside share with the user, files may come and go all day.
func (m *masks) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.hidden) <= mask.MaxHidden {
		return false
	}
	maps.DeleteFunc(m.hidden, func(path string, _ Hidden) bool { return gone(m.shown, path) })
	return len(m.hidden) > mask.MaxHidden
}

// forget has files be hidden anew.
func (m *masks) forget(root string, list []mask.Found) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range list {
		delete(m.hidden, filepath.Join(root, f.Path))
	}
}

// cover has the guest hide places, and returns which of them are not there.
func (s *Supervisor) cover(places [][]byte) (missing []int, err error) {
	e, err := s.askGuest(wire.Request{Op: wire.OpMasks, Hide: places}, guestPatience)
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

// maxCovered is how many places the guest is told of at once.
const maxCovered = 512
