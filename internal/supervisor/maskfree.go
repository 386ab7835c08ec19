package supervisor

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/mask"
)

// In a copy-on-write workspace the kernel does not hear that a hidden file is gone. So the guest
// is told to free its name.

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
		// If it fails, they stay as they are.
		if err := s.free(one); err != nil && m.life.Err() == nil {
			s.notices.tell("names of hidden files that are gone are not free before the next start: " + err.Error())
		}
	})
}

// free frees the names of what is gone.
func (s *Supervisor) free(one *shown) error {
	marked, clean := s.masks.free(one)
	err := s.cover(marked)
	for _, f := range clean {
		err = errors.Join(err, s.freeClean(one, f))
	}
	return err
}

// freeClean frees a name of which nothing is left in the layer. What appears there after the look
// is hidden after that, and so it is again.
func (s *Supervisor) freeClean(one *shown, f mask.Found) error {
	s.masks.order.Lock()
	defer s.masks.order.Unlock()
	if !one.tree.Gone(f.Path) {
		return nil
	}
	places := s.masks.inside(one.tree.Root, false, f)
	for i := range places {
		places[i].Clean = true
	}
	return s.cover(places)
}

// free forgets what is hidden and not there any more, and returns what can be freed of it. If
// the directory that it was in is gone too, the kernel's memory of that is in the way. If no line
// hides a name, what freeing it leaves in the layer would be applied, so nothing may be left; and
// then we have to hear of it when it comes back.
func (m *masks) free(one *shown) (marked []wire.Cover, clean []mask.Found) {
	m.mu.Lock()
	one.freeing = false
	var all []mask.Found
	for host, h := range m.hidden {
		rest, ok := strings.CutPrefix(host, one.tree.Root+"/")
		if !ok || !one.tree.Gone(rest) {
			continue
		}
		delete(m.hidden, host)
		if dir := filepath.Dir(rest); dir == "." || !one.tree.Gone(dir) {
			all = append(all, mask.Found{Path: rest, Dir: h.Dir, Gone: true})
		}
	}
	m.mu.Unlock()
	for _, f := range all {
		switch dir := filepath.Dir(f.Path); {
		case one.tree.Hides(f.Path, f.Dir) != nil:
			marked = append(marked, m.inside(one.tree.Root, false, f)...)
		case dir == "." || one.tree.Set.Enters(dir):
			clean = append(clean, f)
		}
	}
	return marked, clean
}
