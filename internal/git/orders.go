package git

import (
	"context"
	"fmt"
	"strings"
)

// orders are what is to become of refs, one for each.
type orders struct {
	list []order
	at   map[string]int
}

// order is what becomes of a ref, from where it was; "" is nowhere.
type order struct{ ref, was, is string }

// put notes an order. Where the ref was to move before that does not count: git takes one order for
// each, from where it is.
func (o *orders) put(ref, was, is string) {
	if i, ok := o.at[ref]; ok {
		o.list[i].is = is
		return
	}
	if o.at == nil {
		o.at = map[string]int{}
	}
	o.at[ref] = len(o.list)
	o.list = append(o.list, order{ref, was, is})
}

// why is what a reflog says of a ref that was moved because it moved inside.
func (b *Bridge) why() string { return "coffer: from sandbox " + b.Name }

// lines says it to git update-ref: what goes, and what comes.
func (o *orders) lines() (first, then string) {
	var gone, come strings.Builder
	for _, o := range o.list {
		switch {
		case o.was == o.is:
		case o.is == "":
			fmt.Fprintf(&gone, "delete %s %s\n", o.ref, o.was)
		case o.was == "":
			fmt.Fprintf(&come, "create %s %s\n", o.ref, o.is)
		default:
			fmt.Fprintf(&come, "update %s %s %s\n", o.ref, o.is, o.was)
		}
	}
	return gone.String(), come.String()
}

// set notes that a ref is to move, if it is still where we saw it.
func (s *session) set(ref, id string) {
	now := s.refs[ref]
	if now.id == id {
		return
	}
	s.orders.put(ref, now.id, id)
	if now.id = id; id == "" {
		delete(s.refs, ref)
	} else {
		s.refs[ref] = now
	}
}

// write moves the refs: all, or none. What goes, goes before: it may be in the way of what comes.
func (s *session) write(ctx context.Context) error {
	first, then := s.orders.lines()
	for _, lines := range []string{first, then} {
		if lines == "" {
			continue
		}
		if err := s.moveRefs(ctx, s.why(), lines); err != nil {
			return err
		}
	}
	s.orders = orders{}
	return nil
}
