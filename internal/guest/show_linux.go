package guest

import (
	"encoding/json"
	"errors"
	"net"
	"sync"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// lates are worktrees that are put together and not shown yet, by their places.
type lates struct {
	mu    sync.Mutex
	ready map[string]*rootfs.Ready
}

// show serves OpShow.
func (a *agent) show(s net.Conn, asked json.RawMessage) {
	var done wire.Done
	if err := a.showLate(asked); err != nil {
		done.Error = err.Error()
	}
	_ = wire.WriteMessage(s, wire.Event{Done: &done})
	wire.HangUp(s)
}

// showLate shows a worktree to the programs that run, in two steps, or takes one away. The
// mounts that it is made of were handed over before.
func (a *agent) showLate(asked json.RawMessage) error {
	var what Show
	err := json.Unmarshal(asked, &what)
	handed := a.carrier.take(what.Batch)
	if err == nil && what.Late == nil {
		err = errors.New("it was not said what to show")
	}
	a.lates.mu.Lock()
	defer a.lates.mu.Unlock()
	if err == nil && !what.Reveal && !what.Away && !what.Back && !what.Gone {
		ready, err := a.layers.PrepareLate(what.Late, handed)
		if err == nil {
			a.lates.put(what.Late.At, ready)
		}
		return err
	}
	for _, fd := range handed {
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	ready := a.lates.ready[what.Late.At]
	switch {
	case what.Away:
		return a.layers.Conceal(what.Late)
	case what.Back:
		return a.layers.Restore(what.Late)
	case what.Gone:
		a.lates.put(what.Late.At, nil)
		return a.layers.Discard(what.Late)
	}
	if ready == nil {
		return errors.New("it is not ready to be shown")
	}
	err = ready.Reveal()
	a.lates.put(what.Late.At, nil)
	return err
}

// put keeps one in place of another. The lock is held.
func (l *lates) put(at string, ready *rootfs.Ready) {
	if old := l.ready[at]; old != nil {
		old.Close()
	}
	if l.ready == nil {
		l.ready = map[string]*rootfs.Ready{}
	}
	if delete(l.ready, at); ready != nil {
		l.ready[at] = ready
	}
}
