package git

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"golang.org/x/sys/unix"
)

// age makes the files of a new worktree two seconds old, and has git note it in the index.
//
// Git does not trust an index about files that are of the same second as the index itself, for
// one may have been written to after git had looked. So, in a worktree that was made a moment
// ago, every command would read all files again. Where filters of the user's convert files,
// which can take long, it stays so.
func (b *Bridge) age(ctx context.Context, r *Repository) error {
	names, err := rootfs.Tracked(filepath.Join(b.Admin, "index"))
	if err != nil || r.filters() {
		return nil // git knows what to do
	}
	top, err := os.Open(b.Tree)
	if err != nil {
		return err
	}
	defer top.Close()
	past := unix.NsecToTimespec(time.Now().Add(-2 * time.Second).UnixNano())
	for _, name := range names {
		// Some file systems cannot do that, for links above all. Nobody else writes here yet.
		_ = unix.UtimesNanoAt(int(top.Fd()), name, []unix.Timespec{past, past}, unix.AT_SYMLINK_NOFOLLOW)
	}
	_, err = b.tree().run(ctx, "", "update-index", "-q", "--refresh")
	if code(err) == 1 { // a file is not as the index says
		err = nil
	}
	return err
}
