package gitbridge

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/draft"
	"github.com/cofferhq/coffer/internal/gitbridge/index"
	"github.com/cofferhq/coffer/internal/gitindex"
	"github.com/cofferhq/coffer/internal/tree"
	"golang.org/x/sys/unix"
)

// age makes the files of a new worktree two seconds old, and tells the index.
//
// Git does not trust an index about files that are of the same second as the index itself, for
// one may have been written to after git had looked. So, in a worktree that was made a moment
// ago, every command would read all files again, until one happens to write the index in a later
// second. Files that are older git trusts; and who writes to one after this gives it another
// time than the index has. Where something is unusual, it stays as git has made it.
func (b *Bridge) age() error {
	name := filepath.Join(b.Admin, "index")
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil // of no files
	}
	if err != nil {
		return err
	}
	x, _, err := b.readIndex(name)
	if errors.Is(err, index.ErrUnusual) {
		return nil
	}
	if err != nil {
		return err
	}
	top, err := tree.Open(b.Tree)
	if err != nil {
		return err
	}
	all := &files{top: top, format: b.Format}
	defer all.close()
	past := unix.NsecToTimespec(time.Now().Truncate(time.Second).Add(-2 * time.Second).UnixNano())
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.Mode == gitindex.Gitlink || e.Flags&gitindex.Assumed != 0 || e.More&gitindex.Skipped != 0 {
			continue
		}
		dir, base, err := all.find(e.Name)
		if err != nil {
			continue // it is not there, and git knows what that means
		}
		if now, ok := all.Stat(e.Name); !ok || now != e.Stat {
			continue
		}
		// Some file systems cannot do that, for links above all.
		if unix.UtimesNanoAt(dir.FD(), base, []unix.Timespec{past, past}, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if aged, ok := all.Stat(e.Name); ok {
			e.Stat = aged
		}
	}
	return draft.File{Path: name, Mode: info.Mode().Perm(), Alone: true}.Write(x.Bytes())
}
