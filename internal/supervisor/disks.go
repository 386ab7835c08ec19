package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/room"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What programs write must leave room for the user's own work. Who is no administrator can set no
// quota; so the disks are looked at, and when one is nearly full all programs wait until there is
// room again. See package room for how often, and [confine.SeccompOptions] for calls that would
// take a disk between two looks.

// looksAfter is when the looks begin. A short run does not pay for them.
const looksAfter = 50 * time.Millisecond

// disk is a file system on which the sandbox can write.
type disk struct {
	*room.Disk
	path  string // of something on it
	floor room.Floor
}

// keepFree is how many bytes of each disk are kept free.
func keepFree(l sandbox.Limits) uint64 {
	switch {
	case l.KeepFree < 0:
		return 0
	case l.KeepFree == 0:
		return room.Default
	}
	return uint64(l.KeepFree)
}

// watchDisks begins to look.
func (s *Supervisor) watchDisks() {
	keep := keepFree(s.Sandbox.Limits)
	if keep == 0 {
		return
	}
	s.masks.ended.Go(func() {
		if !outlives(s, time.After(looksAfter)) {
			return
		}
		for _, d := range s.openDisks(keep) {
			s.masks.ended.Go(func() {
				defer d.Close()
				s.watchDisk(d)
			})
		}
	})
}

// openDisks opens the file systems on which the sandbox can write, each once. One that does not
// count what is free is left out.
func (s *Supervisor) openDisks(keep uint64) (list []*disk) {
	sb := s.Sandbox
	places := []string{sb.Dir()}
	// What is committed in a worktree is brought over to the repository.
	if mode := sb.Workspace.Mode; mode == sandbox.WorkspaceDirect || mode == sandbox.WorkspaceTree {
		places = append(places, sb.Workspace.Path)
	}
	for _, m := range sb.Mounts {
		if !m.ReadOnly && !m.Copy {
			places = append(places, m.Source)
		}
	}
	// What is mounted in a place is seen inside, too.
	for _, path := range slices.Clone(places) {
		places = append(places, room.Below(path)...)
	}
	for _, path := range places {
		at, err := room.Open(path)
		if err != nil {
			continue
		}
		one := &disk{Disk: at, path: path}
		if now, counts := at.Look(); counts {
			one.floor = room.NewFloor(keep, now)
		}
		if opened(list, one) || one.floor == (room.Floor{}) {
			at.Close()
			continue
		}
		list = append(list, one)
	}
	return list
}

func opened(list []*disk, one *disk) bool {
	for _, d := range list {
		if d.Same(one.Disk) {
			return true
		}
	}
	return false
}

// watchDisk looks at a disk until the sandbox ends.
func (s *Supervisor) watchDisk(d *disk) {
	for {
		now, counts := d.Look()
		switch {
		case !counts:
			return
		case d.floor.Low(now):
			if !s.awaitRoom(d, now) {
				return
			}
		case !s.untilLook(d.floor.Next(now)):
			return
		}
	}
}

// untilLook waits until there is to be a look, and says whether the sandbox is still there. While
// it has no program there is nothing to see.
func (s *Supervisor) untilLook(wait time.Duration) bool {
	// One that has no program now is not woken later to find that out.
	if again := s.quiet(time.Now()); again != nil {
		return outlives(s, again)
	}
	return outlives(s, time.After(wait))
}

// askAfter is how long programs that were left behind are taken to be there still.
const askAfter = 30 * time.Second

// quiet returns, if there is no program, what is closed when one comes.
func (s *Supervisor) quiet(now time.Time) <-chan struct{} {
	s.mu.Lock()
	// Daemons come back by themselves.
	if s.execs > 0 || s.idle == nil || s.daemons.Any() || now.Before(s.behind) {
		s.mu.Unlock()
		return nil
	}
	if s.entered == nil {
		s.entered = make(chan struct{})
	}
	again := s.entered
	s.mu.Unlock()
	// Programs may have left others behind.
	found, err := s.background()
	if err != nil || found.Count > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.behind = now.Add(askAfter)
		return nil
	}
	return again
}

// awaitRoom has all programs wait until there is room on a disk again. It says whether the sandbox
// is still there.
func (s *Supervisor) awaitRoom(d *disk, now room.Free) bool {
	lacks := fmt.Sprintf("%s on the disk of %s: make room, and they go on; 'coffer stop %s'", d.floor.Lacks(now), d.path, s.Sandbox.Name)
	why := fmt.Sprintf("the programs of %s wait, because %s ends them", s.Sandbox.Name, lacks)
	if err := s.holdDisk(true, why); err != nil {
		return s.unstoppable(err)
	}
	s.tellDisk(fmt.Sprintf("all programs wait, because %s or Ctrl-C ends them", lacks))
	for counts := true; counts && !d.floor.Ample(now); {
		was := now
		if !outlives(s, time.After(d.floor.Wait(now))) {
			return false
		}
		// Who is in the middle of a long write has not been stopped yet.
		if now, counts = d.Look(); counts && d.floor.Falling(now) && now.Less(was) {
			if err := s.holdHard(); err != nil {
				return s.unstoppable(err)
			}
		}
	}
	// Before they do: one may end at once, and whoever looks at it leaves.
	s.tellDisk("there is room again on the disk of " + d.path + ": all programs go on")
	if err := s.holdDisk(false, why); err != nil {
		return s.unstoppable(err)
	}
	return true
}

// unstoppable ends a sandbox whose programs could go on writing.
func (s *Supervisor) unstoppable(err error) bool {
	if s.masks.life.Err() == nil && !s.session.IsClosed() {
		s.because("the disk could not be kept from filling up: " + err.Error())
		s.instance.Kill()
	}
	return false
}

// tellDisk tells the user, and the log of a sandbox that stays.
func (s *Supervisor) tellDisk(line string) {
	s.notices.urge(line)
	if !s.audit.brief() {
		s.audit.add(audit.Event{Kind: audit.KindLimit, Detail: line})
	}
}
