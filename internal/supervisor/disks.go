package supervisor

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What programs write is to leave room for the user's own work. Somebody who is no administrator
// can set no quota; so the disks are looked at, and when one is nearly full the user is told, and
// the sandbox is frozen if it has a cgroup. Calls that take a whole disk between two looks are
// refused, see [confine.SeccompOptions].

// diskInterval is how often they are looked at.
const diskInterval = time.Second

// A disk is a file system on which the sandbox can write.
type disk struct {
	*limits.Disk
	path string // of something on it
}

// fullDisk is what became of the last look.
type fullDisk struct {
	mu     sync.Mutex
	why    string // what is short, on which disk; empty if nothing is
	at     string // something on that disk
	frozen bool   // for that
}

// keepFree is how many bytes of each disk are to stay free.
func keepFree(l sandbox.Limits) uint64 {
	switch {
	case l.KeepFree < 0:
		return 0
	case l.KeepFree == 0:
		return limits.DefaultKeepFree
	}
	return uint64(l.KeepFree)
}

// watchDisks looks at the disks until the sandbox ends.
func (s *Supervisor) watchDisks() {
	keep := keepFree(s.Sandbox.Limits)
	if keep == 0 {
		return
	}
	s.masks.ended.Go(func() {
		disks := s.openDisks(keep)
		defer func() {
			for _, d := range disks {
				d.Close()
			}
		}()
		tick := time.NewTicker(diskInterval)
		defer tick.Stop()
		for outlives(s, tick.C) {
			s.lookAtDisks(disks)
		}
	})
}

// openDisks opens the file systems on which the sandbox can write, each once.
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
	for _, path := range places {
		one, err := limits.OpenDisk(path, keep)
		if err != nil {
			continue // it does not count what is free
		}
		if slices.ContainsFunc(list, func(d *disk) bool { return d.Same(one) }) {
			one.Close()
			continue
		}
		list = append(list, &disk{one, path})
	}
	return list
}

// lookAtDisks looks at all once. The sandbox is frozen while any of them is nearly full.
func (s *Supervisor) lookAtDisks(disks []*disk) {
	full, at, name := "", "", s.Sandbox.Name
	for _, d := range disks {
		if short := d.Short(); short != "" && full == "" {
			full, at = short+" on the disk of "+d.path, d.path
		}
	}
	f := &s.fullDisk
	f.mu.Lock()
	defer f.mu.Unlock()
	was, place := f.why, f.at
	f.why, f.at = full, at
	switch {
	case was == "" && full != "":
		if f.frozen = s.limits.Freeze(true); f.frozen {
			s.tellDisk(fmt.Sprintf("sandbox %s is frozen, because %s: make room and it goes on; 'coffer stop %s' ends it", name, full, name))
		} else {
			s.tellDisk(fmt.Sprintf("%s: make room, or end the sandbox with 'coffer stop %s'", full, name))
		}
	case was != "" && full == "":
		goesOn := ""
		if f.frozen {
			goesOn = ": sandbox " + name + " goes on"
		}
		s.tellDisk("there is room again on the disk of " + place + goesOn) // first: the program may end at once
		f.frozen = f.frozen && !s.limits.Freeze(false)
	}
}

// frozen says why the sandbox is frozen, empty if it is not.
func (s *Supervisor) frozen() string {
	f := &s.fullDisk
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.frozen {
		return ""
	}
	return fmt.Sprintf("sandbox %s is frozen, because %s: make room and it goes on", s.Sandbox.Name, f.why)
}

// tellDisk tells the user, and the log of a sandbox that stays.
func (s *Supervisor) tellDisk(line string) {
	s.notices.urge(line)
	if !s.audit.brief() {
		s.audit.add(audit.Event{Kind: audit.KindLimit, Detail: line})
	}
}
