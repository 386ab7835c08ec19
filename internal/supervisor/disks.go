package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// diskInterval is how often disks are looked at.
const diskInterval = time.Second

// disks keeps room for the user's own work on the disks that a sandbox writes to. Only an
// administrator can set a quota, so they are polled: when one is nearly full the user is told, and
// the sandbox is frozen if it has a cgroup. Calls that take a whole disk between two looks are
// refused, see [confine.SeccompOptions].
type disks struct {
	sb      *sandbox.Sandbox
	limits  *limits.Group
	notices *notices
	log     *audit.Log
	work    sync.WaitGroup

	mu   sync.Mutex
	full string // what is short, on which disk; empty if nothing is
	held bool   // the sandbox is frozen for that
}

// A disk is a file system, and the path of something on it.
type disk struct {
	*limits.Disk
	path string
}

// keepFree is how many bytes of each disk stay free.
func keepFree(l sandbox.Limits) uint64 {
	switch {
	case l.KeepFree < 0:
		return 0
	case l.KeepFree == 0:
		return limits.DefaultKeepFree
	}
	return uint64(l.KeepFree)
}

// start looks at the disks until the context ends.
func (d *disks) start(ctx context.Context) {
	keep := keepFree(d.sb.Limits)
	if keep == 0 {
		return
	}
	d.work.Go(func() {
		list := d.open(keep)
		for sleep(ctx, diskInterval) {
			d.look(list)
		}
		for _, one := range list {
			one.Close()
		}
	})
}

func (d *disks) close() { d.work.Wait() }

// open opens the file systems to which the sandbox can write, each once.
func (d *disks) open(keep uint64) (list []disk) {
	places := append([]string{d.sb.Dir()}, d.sb.Writes()...)
	if d.sb.Workspace.Mode == sandbox.WorkspaceTree {
		places = append(places, d.sb.Workspace.Path) // the repository gets its commits
	}
	for _, path := range places {
		one, err := limits.OpenDisk(path, keep)
		if err != nil {
			continue // it does not count what is free
		}
		if slices.ContainsFunc(list, func(d disk) bool { return d.Same(one) }) {
			one.Close()
			continue
		}
		list = append(list, disk{one, path})
	}
	return list
}

// look looks at all disks once. The sandbox is frozen while any of them is nearly full.
func (d *disks) look(list []disk) {
	full := ""
	for _, one := range list {
		if short := one.Short(); short != "" {
			full = short + " on the disk of " + one.path
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was, name := d.full, d.sb.Name
	d.full = full
	switch {
	case was == "" && full != "":
		if d.held = d.limits.Freeze(true); d.held {
			d.tell(fmt.Sprintf("sandbox %s is frozen, because %s: make room and it goes on; 'coffer stop %s' ends it", name, full, name))
		} else {
			d.tell(fmt.Sprintf("%s: make room, or end the sandbox with 'coffer stop %s'", full, name))
		}
	case was != "" && full == "":
		line := "there is room again on the disk"
		if d.held {
			line += ": sandbox " + name + " goes on"
		}
		d.tell(line) // first: the program may end at once
		d.held = d.held && !d.limits.Freeze(false)
	}
}

// frozen says why the sandbox is frozen, empty if it is not.
func (d *disks) frozen() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.held {
		return ""
	}
	return fmt.Sprintf("sandbox %s is frozen, because %s: make room and it goes on", d.sb.Name, d.full)
}

func (d *disks) tell(line string) {
	d.notices.urge(line)
	d.log.Add(audit.Event{Kind: audit.KindLimit, Detail: line})
}
