package forward

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// Change changes the forwards of a sandbox. If it runs, they change now; if not, when it
// starts. It returns those that were asked for.
func Change(ctx context.Context, sb *sandbox.Sandbox, w wire.Forwarding) (asked []wire.Forward, running bool, err error) {
	err = sb.Either(ctx, func(l *wire.Line) (err error) {
		running = true
		asked, err = l.Forward(w)
		return err
	}, func() (err error) {
		asked, err = changeStopped(sb, w)
		return err
	})
	return asked, running, err
}

// changeStopped changes the record of a sandbox that does not run, whose lock is held. The ports are
// taken for a moment, to see whether they can be.
func changeStopped(sb *sandbox.Sandbox, w wire.Forwarding) ([]wire.Forward, error) {
	store, err := sandbox.Open(filepath.Dir(sb.Dir()))
	if err != nil {
		return nil, err
	}
	if sb, err = store.Get(sb.ID); err != nil { // as it is now
		return nil, err
	}
	c, err := plan(sb.Forwards, w)
	if err != nil {
		return nil, err
	}
	for i := range c.fresh {
		e, err := take(sb, &c.fresh[i])
		if err != nil {
			return nil, err
		}
		defer e.close()
	}
	if err := sb.LogOnce(c.events(sb.Forwards)...); err != nil {
		return nil, err
	}
	sb.Forwards = c.result()
	return c.asked(w), sb.Save()
}

// Change changes the forwards while the sandbox runs. It takes new ports before it gives up old
// ones, so that it does all or nothing.
func (f *Forwarder) Change(w wire.Forwarding) (*wire.Ports, error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.session.IsClosed() {
		return nil, wire.ErrGone
	}
	c, err := plan(f.sb.Forwards, w)
	if err != nil {
		return nil, err
	}
	var fresh []*entrance
	undo := func() {
		for _, e := range fresh {
			e.close()
		}
	}
	for i := range c.fresh {
		e, err := take(f.sb, &c.fresh[i])
		if err != nil {
			undo()
			return nil, err
		}
		fresh = append(fresh, e)
	}
	old := f.sb.Forwards
	f.sb.Forwards = c.result()
	if err := f.sb.Save(); err != nil {
		f.sb.Forwards = old
		undo()
		return nil, err
	}
	f.forwards = slices.DeleteFunc(f.forwards, func(e *entrance) bool {
		stays := slices.ContainsFunc(c.kept, func(f sandbox.Forward) bool { return f.Host == e.host })
		if !stays {
			e.close()
		}
		return !stays
	})
	for _, e := range fresh {
		f.forwards = append(f.forwards, e)
		f.admit(e)
	}
	for _, e := range c.events(old) {
		f.log(e)
	}
	return &wire.Ports{Forwards: c.asked(w)}, nil
}

// planned is a change of forwards.
type planned struct {
	kept, fresh []sandbox.Forward
}

func (c planned) result() []sandbox.Forward { return slices.Concat(c.kept, c.fresh) }

// events are what the log says of a change, of which old were there before.
func (c planned) events(old []sandbox.Forward) (all []audit.Event) {
	for _, f := range old {
		if !slices.Contains(c.kept, f) {
			all = append(all, audit.Event{Kind: audit.KindPort, Port: f.Host, Detail: fmt.Sprintf("no longer forwarded to port %d inside", f.Inside)})
		}
	}
	for _, f := range c.fresh {
		all = append(all, audit.Event{Kind: audit.KindPort, Port: f.Host, Detail: fmt.Sprintf("forwarded to port %d inside", f.Inside)})
	}
	return all
}

// asked are the forwards that somebody asked for, as they have become.
func (c planned) asked(w wire.Forwarding) (all []wire.Forward) {
	for _, a := range w.Add {
		for _, f := range c.result() {
			if same(f, a) {
				all = append(all, wire.Forward(f))
				break
			}
		}
	}
	return all
}

// same says whether a forward is the one that is asked for.
func same(f sandbox.Forward, asked wire.Forward) bool {
	if asked.Host == 0 {
		return f.Any && f.Inside == asked.Inside
	}
	return f.Host == asked.Host && f.Inside == asked.Inside
}

// plan decides which forwards stay and which are new. What is there already is not
// asked for in vain.
func plan(have []sandbox.Forward, w wire.Forwarding) (c planned, err error) {
	c.kept = slices.Clone(have)
	if w.ClearAll {
		c.kept = nil
	}
	for _, gone := range w.Clear {
		n := len(c.kept)
		c.kept = slices.DeleteFunc(c.kept, func(f sandbox.Forward) bool {
			return (gone.Host == 0 || f.Host == gone.Host) && (gone.Inside == 0 || f.Inside == gone.Inside)
		})
		if len(c.kept) == n {
			return c, ui.Error("no port leads "+described(gone), "see 'coffer port-forward --list'")
		}
	}
	for _, a := range w.Add {
		if a.Inside == 0 {
			return c, errors.New("a forward leads to a port, not to 0")
		}
		all := c.result()
		if slices.ContainsFunc(all, func(f sandbox.Forward) bool { return same(f, a) }) {
			continue
		}
		if i := slices.IndexFunc(all, func(f sandbox.Forward) bool { return a.Host != 0 && f.Host == a.Host }); i >= 0 {
			return c, ui.Error(fmt.Sprintf("port %d leads to port %d inside already", a.Host, all[i].Inside),
				fmt.Sprintf("give it up with --clear %d, or choose another", a.Host))
		}
		c.fresh = append(c.fresh, sandbox.Forward{Host: a.Host, Inside: a.Inside, Any: a.Host == 0})
	}
	if n := len(c.result()); n > sandbox.MaxForwards {
		return c, fmt.Errorf("%d forwards are more than the %d there may be", n, sandbox.MaxForwards)
	}
	return c, nil
}

func described(f wire.Forward) string {
	switch {
	case f.Host == 0:
		return fmt.Sprintf("to port %d inside", f.Inside)
	case f.Inside == 0:
		return fmt.Sprintf("from port %d", f.Host)
	}
	return fmt.Sprintf("from port %d to port %d inside", f.Host, f.Inside)
}
