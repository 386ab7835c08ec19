package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
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
		s.warnRefused(all[0])
		s.warnNested(all[0], s.notices.once)
		for _, one := range all {
			s.watchTree(one)
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

// warnRefused tells the user if files of the workspace would show what is hidden.
func (s *Supervisor) warnRefused(one *shown) {
	if s.Sandbox.Workspace.Mode == sandbox.WorkspaceNone {
		return
	}
	refused := one.tree.Set.Refused()
	if len(refused) == 0 {
		return
	}
	r, n := refused[0].Lines[0], -1
	for _, f := range refused {
		n += len(f.Lines)
	}
	more := ""
	if n > 0 {
		more = fmt.Sprintf(" (as do %d more lines)", n)
	}
	s.notices.tell(fmt.Sprintf("%s: %s shows only what its own file hides%s, because you have not agreed to it: 'coffer trust' asks you, for new sandboxes", r.From, r.Text, more))
}

// watchTree starts to hear of what appears in one of the directories.
func (s *Supervisor) watchTree(one *shown) {
	s.masks.mu.Lock()
	defer s.masks.mu.Unlock()
	if one.ended != nil || !slices.Contains(s.masks.shown, one) {
		return // it is watched, or gone by now
	}
	ctx, stop := context.WithCancel(s.masks.life)
	one.stop, one.ended = stop, make(chan struct{})
	s.masks.ended.Go(func() {
		defer close(one.ended)
		err := one.tree.Watch(ctx, mask.Watching{Shared: one.shared, Hold: s.hold, Repository: s.repositories(one),
			Slow: s.notices.tell,
			Told: func(list []mask.Found) error { return s.hide(one, list) }})
		switch {
		case err == nil || ctx.Err() != nil || s.session.IsClosed():
		default:
			// What appears now would be seen.
			s.because(fmt.Sprintf("files that appear in %s could not be hidden any more: %s", one.tree.Root, err))
			s.instance.Kill()
		}
	})
}

// stands says whether a directory that was shown is still there.
func (m *masks) stands(root string) bool {
	return slices.ContainsFunc(m.trees(), func(one *shown) bool { return one.tree.Root == root && one.tree.Stands() })
}

// dropTree is for a directory that is not shown any more.
func (m *masks) dropTree(root string) {
	m.mu.Lock()
	i := slices.IndexFunc(m.shown, func(one *shown) bool { return one.tree.Root == root })
	if i < 0 {
		m.mu.Unlock()
		return
	}
	one := m.shown[i]
	m.shown = slices.Delete(slices.Clone(m.shown), i, i+1)
	maps.DeleteFunc(m.hidden, func(path string, _ Hidden) bool { return strings.HasPrefix(path, root+"/") })
	m.mu.Unlock()
	if one.ended != nil {
		one.stop()
		<-one.ended
	}
	one.tree.Close()
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

// freeAfter is how long something has to be gone before its name is free. Who removes a
// directory removes what is in it first.
const freeAfter = 200 * time.Millisecond

// gone is for a path that is not there any more, or may not be. In a copy-on-write workspace
// the kernel does not hear of that.
func (s *Supervisor) gone(one *shown, path string) {
	m := &s.masks
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.hidden[filepath.Join(one.tree.Root, path)]; one.upper == "" || one.freeing || !known && path != "" {
		return
	}
	one.freeing = true
	m.ended.Go(func() {
		if !outlives(s, time.After(freeAfter)) {
			return
		}
		if places := m.free(one); len(places) > 0 {
			// If it fails, they stay as they are.
			if err := s.cover(places); err != nil && m.life.Err() == nil {
				s.notices.tell("names of hidden files that are gone are not free before the next start: " + err.Error())
			}
		}
	})
}

// free forgets what is hidden and not there any more, and returns what can be freed of it. If
// a directory is gone too, the kernel's memory of that is in the way; and if no line hides a
// file, what freeing it leaves in the layer would be applied.
func (m *masks) free(one *shown) (places []wire.Cover) {
	m.mu.Lock()
	one.freeing = false
	var paths []string
	for host, h := range m.hidden {
		rest, ok := strings.CutPrefix(host, one.tree.Root+"/")
		if !ok || !one.tree.Gone(rest) {
			continue
		}
		delete(m.hidden, host)
		if dir := filepath.Dir(rest); !h.Dir && (dir == "." || !one.tree.Gone(dir)) && one.tree.Hides(rest, false) != nil {
			paths = append(paths, rest)
		}
	}
	m.mu.Unlock()
	for _, path := range paths {
		places = append(places, m.inside(one.tree.Root, false, mask.Found{Path: path, Gone: true})...)
	}
	return places
}

// hide hides what has appeared, keeps it as it is, or hides it no longer.
func (s *Supervisor) hide(one *shown, list []mask.Found) error {
	var places []wire.Cover
	for len(list) > 0 {
		f, n := list[0], 1
		for n < len(list) && list[n].Stale {
			n++
		}
		names := list[:n] // its own, and old ones
		list = list[n:]
		switch {
		case f.Gone:
			s.gone(one, f.Path)
			continue
		case !f.Keep && s.note(one.tree.Root, f) && !f.Again:
			names = names[1:]
		}
		places = append(places, s.masks.inside(one.tree.Root, false, names...)...)
	}
	if s.masks.full() {
		return fmt.Errorf("%w files to hide", mask.ErrTooMany)
	}
	return s.cover(places)
}

// cover has the guest do it.
func (s *Supervisor) cover(places []wire.Cover) error {
	if len(places) == 0 {
		return nil
	}
	e, err := s.askGuest(wire.Request{Op: wire.OpMasks, Hide: places}, visitPatience)
	if err != nil {
		return err
	}
	var said []string
	if err := json.Unmarshal(e.Masks, &said); err != nil || len(said) != len(places) {
		return errors.New("the guest did not say whether it is hidden")
	}
	for i, what := range said {
		if what == wire.OldName && coveredBefore(places[i+1:], said[i+1:]) {
			continue
		}
		if what != "" && what != wire.NotThere {
			return errors.New(what)
		}
	}
	return nil
}

// coveredBefore says that a file is hidden under an old name of its directory, which are the
// next places. That keeps the directory there, so nobody reaches it by the new name.
func coveredBefore(places []wire.Cover, said []string) bool {
	for i, p := range places {
		if !p.Stale {
			return false
		}
		if said[i] == "" {
			return true
		}
	}
	return false
}
