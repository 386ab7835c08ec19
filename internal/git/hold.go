package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Git inside has refs to commits of the host's, whose objects it only sees. When the user
// rewrites or deletes a branch, the host's git forgets the commits that were on it, weeks later,
// and git inside would stumble over every ref that it has to one. So what was shown inside and is
// on no branch any more is held by a ref of ours, for as long as there is the sandbox.

// maxHeld bounds how much is held at a time.
const maxHeld = 1000

// heldRef is where one is held.
func (b *Bridge) heldRef(id string) string { return b.own() + "shown/" + id }

// hold holds what was shown inside before, and is not shown any more. What it fails to hold now
// is tried again with the next, but for what is lost already.
func (b *Bridge) hold(ctx context.Context) error {
	gone := vanished(b.unheld, b.shown)
	gone = gone[:min(len(gone), maxHeld)]
	b.unheld = ""
	if len(gone) == 0 || b.memory != nil {
		return nil
	}
	err := b.holdAll(ctx, gone)
	if err != nil {
		gone = slices.DeleteFunc(gone, func(id string) bool { return slices.Contains(b.lost, id) })
		b.unheld = strings.Join(gone, " \n") + " \n"
	}
	return err
}

func (b *Bridge) holdAll(ctx context.Context, gone []string) error {
	h := b.refs()
	ids := strings.Join(gone, "\n") + "\n"
	kinds, err := h.run(ctx, ids, "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return err
	}
	var tags, commits []string
	for line := range strings.Lines(kinds) {
		switch id, kind, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "missing":
			b.lost = append(b.lost, id)
		case "tag":
			tags = append(tags, id)
		case "commit":
			commits = append(commits, id)
		}
	}
	if len(commits) > 0 {
		// Most branches only went on. What only other sandboxes hold may go with them.
		loose, err := h.run(ctx, strings.Join(commits, "\n")+"\n", "rev-list", "--stdin", "--not", "--exclude=refs/coffer/*", "--exclude=refs/heads/coffer/*", "--all")
		if err != nil {
			return err
		}
		list := strings.Fields(loose)
		slices.Sort(list)
		commits = slices.DeleteFunc(commits, func(id string) bool {
			_, found := slices.BinarySearch(list, id)
			return !found
		})
	}
	var orders strings.Builder
	for _, id := range append(commits, tags...) {
		fmt.Fprintf(&orders, "update %s %s\n", b.heldRef(id), id)
	}
	if orders.Len() == 0 {
		return nil
	}
	if err := b.begin(ctx); err != nil {
		return err
	}
	_, err = h.run(ctx, orders.String(), "update-ref", "--stdin") // without a log, in which git wants commits only
	return err
}

// vanished lists what packed refs name before and not now.
func vanished(before, now string) (ids []string) {
	there := map[string]bool{}
	for line := range strings.Lines(now) {
		id, _, _ := strings.Cut(line, " ")
		there[id] = true
	}
	for line := range strings.Lines(before) {
		if id, _, _ := strings.Cut(line, " "); isID(id) && !there[id] {
			there[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}
