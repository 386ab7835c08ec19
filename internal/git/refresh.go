package git

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Refresh shows the sandbox the host's branches and tags as they are now.
func (b *Bridge) Refresh(ctx context.Context) error {
	b.showing.Lock()
	defer b.showing.Unlock()
	return b.refresh(ctx)
}

func (b *Bridge) refresh(ctx context.Context) error {
	began := time.Now()
	refs, err := snapshot(ctx, b.Common)
	if err != nil {
		return err
	}
	b.refPlaces = refPlaces(b.Common, refs)
	var last time.Time
	if b.refStamp, last = b.stamp(); last.After(began.Add(-refTick)) {
		b.refStamp = "" // it may be what has moved since they were read
	}
	return b.showRefs(refs)
}

// RefreshMoved is Refresh if refs may have moved since: for a program that is about to start, so
// that git inside finds what the user has just committed. To look costs no more than a few
// microseconds. What it overlooks, who follows the refs hears of a moment later. A git that
// takes its time, or somebody else who waits for one, is not waited for.
func (b *Bridge) RefreshMoved(ctx context.Context) error {
	if b.showing.TryLock() {
		moved := b.moved()
		b.showing.Unlock()
		if !moved {
			return nil
		}
	}
	done := make(chan error, 1)
	go func() {
		b.showing.Lock()
		defer b.showing.Unlock()
		ctx, cancel := context.WithTimeout(ctx, patienceRefs)
		defer cancel()
		if b.moved() {
			done <- b.refresh(ctx)
		} else {
			done <- nil
		}
	}()
	wait, cancel := context.WithTimeout(ctx, patienceMoved)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-wait.Done(): // it goes on, for those who come later
		return fmt.Errorf("read the refs of %s: %w", b.Common, context.Cause(wait))
	}
}

// patienceMoved is how long a program's start waits for its refs. They are read from a few
// files, or else by git.
const patienceMoved = 2 * time.Second

// patienceRefs is how long it is read on, for the programs after that one.
var patienceRefs = 20 * time.Second

// moved says whether refs may have moved since they were read. The lock is held.
func (b *Bridge) moved() bool {
	if b.memory != nil {
		return false
	}
	now, _ := b.stamp()
	return now != b.refStamp
}

// maxRefPlaces bounds how many directories are looked at.
const maxRefPlaces = 64

// refTick is more than the kernel's clock takes from one time of a file to the next.
const refTick = 20 * time.Millisecond

// refPlaces are the files and directories that change when git moves a ref: it writes a file
// beside it, and renames that. For the first one of a directory it makes that, and may take its
// time until there is one in it. Of too many, those further down are left out.
func refPlaces(common string, refs []ref) []string {
	dirs := map[string]bool{}
	for _, r := range refs {
		for dir := path.Dir(r.name); strings.Contains(dir, "/") && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, kind := range []string{"refs/heads", "refs/tags"} {
		dirs[kind] = true
		_ = fs.WalkDir(os.DirFS(common), kind, func(dir string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
				return nil
			case dir == wayRef: // those of sandboxes
				return fs.SkipDir
			}
			dirs[dir] = true
			return nil
		})
	}
	list := slices.SortedFunc(maps.Keys(dirs), func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	return append([]string{"packed-refs", "reftable"}, list[:min(len(list), maxRefPlaces)]...)
}

// stamp is different after one of them has changed, and never empty. It says when that was the
// last time.
func (b *Bridge) stamp() (stamp string, last time.Time) {
	s := []byte{' '}
	for _, p := range b.refPlaces {
		info, err := os.Lstat(filepath.Join(b.Common, p))
		if err != nil {
			s = append(s, "- "...)
			continue
		}
		s = fmt.Appendf(s, "%d ", info.ModTime().UnixNano())
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return string(s), last
}
