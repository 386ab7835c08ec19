package gitbridge

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Refresh shows the sandbox the host's branches and tags as they are now.
func (b *Bridge) Refresh(ctx context.Context) error {
	b.showing.Lock()
	defer b.showing.Unlock()
	if err := b.refresh(ctx); err != nil {
		return err
	}
	_ = b.hold(ctx) // what cannot be held is no reason not to go on
	return nil
}

// refresh leaves what has to be held to the next who is in no hurry.
func (b *Bridge) refresh(ctx context.Context) error {
	refs, err := snapshot(ctx, b.Common)
	if err != nil {
		return err
	}
	b.refPlaces = refPlaces(refs)
	b.refStamp = b.stamp()
	before, err := b.showRefs(refs)
	if before != b.shown {
		b.unheld += before
	}
	return err
}

// RefreshMoved is Refresh if refs may have moved since: for a program that is about to start, so
// that git inside finds what the user has just committed. To look costs no more than a few
// microseconds. What it overlooks, who follows the refs hears of a moment later.
func (b *Bridge) RefreshMoved(ctx context.Context) error {
	b.showing.Lock()
	defer b.showing.Unlock()
	if b.memory != nil || b.refStamp != "" && b.refStamp == b.stamp() {
		return nil
	}
	return b.refresh(ctx)
}

// maxRefPlaces bounds how many directories are looked at.
const maxRefPlaces = 64

// refPlaces are the files and directories that change when git moves a ref: it writes a file
// beside it, and renames that.
func refPlaces(refs []ref) []string {
	places := []string{"packed-refs", "refs/heads", "refs/tags", "reftable"}
	for _, r := range refs {
		if dir := path.Dir(r.name); !slices.Contains(places, dir) && len(places) < maxRefPlaces {
			places = append(places, dir)
		}
	}
	return places
}

// stamp is different after one of them has changed.
func (b *Bridge) stamp() string {
	var s strings.Builder
	for _, p := range b.refPlaces {
		if info, err := os.Lstat(filepath.Join(b.Common, p)); err == nil {
			fmt.Fprintf(&s, "%d ", info.ModTime().UnixNano())
		} else {
			s.WriteString("- ")
		}
	}
	return s.String()
}
