package git

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What the host's git has forgotten before it could be held, while the sandbox was not run for
// weeks, is lost. Git inside can do little with a ref to it in its directory, not even fetch. So
// those that only follow the host's are removed: the next fetch brings what there is.

// maxPrivateRefs bounds what is read of the refs that git inside has packed.
const maxPrivateRefs = 16 << 20

// follows says whether a ref inside is one that git made of the host's.
func follows(ref string) bool {
	return strings.HasPrefix(ref, "refs/remotes/") || strings.HasPrefix(ref, "refs/tags/")
}

// Heal removes refs inside to what is lost. Nothing may run inside. What is not understood
// stays as it is, and git says so.
func (b *Bridge) Heal() {
	lost := b.lost
	if b.lost = nil; len(lost) == 0 {
		return
	}
	slices.Sort(lost)
	isLost := func(id string) bool {
		_, found := slices.BinarySearch(lost, id)
		return found
	}
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return
	}
	defer root.Close()
	if text := smallText(root, "packed-refs", maxPrivateRefs); text != "" {
		if kept, dropped := withoutLost(text, isLost); len(dropped) > 0 && replaceIn(root, "packed-refs", kept) == nil {
			for _, ref := range dropped {
				_ = root.Remove("logs/" + ref)
			}
		}
	}
	seen := 0
	_ = fs.WalkDir(root.FS(), "refs", func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > mostLocks {
			return fs.SkipAll
		}
		if err == nil && d.Type().IsRegular() && follows(name) && isLost(strings.TrimSpace(smallText(root, name, 100))) {
			_ = root.Remove(name)
			_ = root.Remove("logs/" + name)
		}
		return nil
	})
}

// withoutLost is a file of packed refs without those, and which they were.
func withoutLost(text string, isLost func(id string) bool) (rest string, dropped []string) {
	var kept strings.Builder
	drop := false
	for line := range strings.Lines(text) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !strings.HasPrefix(line, "^") { // which is about the one before
			if drop = follows(ref) && isLost(id); drop {
				dropped = append(dropped, ref)
			}
		}
		if !drop {
			kept.WriteString(line)
		}
	}
	return kept.String(), dropped
}

// replaceIn writes a file of a directory that the sandbox can write, by rename.
func replaceIn(root *os.Root, name, text string) error {
	f, err := root.OpenFile(name+".coffer", os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = root.Rename(name+".coffer", name)
	}
	if err != nil {
		_ = root.Remove(name + ".coffer")
	}
	return err
}
