package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// git worktree add starts three more gits, one after the other. Whoever starts an agent
// waits for them. What they write, but for the files, is four lines of text, as
// gitrepository-layout(5) describes it: so in an ordinary repository it is written here,
// and one git checks the files out while another one makes the branch.

// ordinary says whether a worktree is no more than these lines: refs are files, whose modes are
// nobody's business, all files are checked out, and no worktree has a config to pass on.
func (r *Repository) ordinary() bool {
	shared := []string{"", "umask", "false", "0"}
	return !isDir(filepath.Join(r.Common, "reftable")) && r.config["extensions.refstorage"] == "" &&
		r.config["core.sparsecheckout"] != "true" && slices.Contains(shared, strings.ToLower(r.config["core.sharedrepository"])) &&
		!exists(filepath.Join(r.Common, "config.worktree")) && !exists(filepath.Join(r.Dir, "config.worktree"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// layTree makes the worktree.
func (b *Bridge) layTree(ctx context.Context, r *Repository) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Forget(context.WithoutCancel(ctx), true))
		}
	}()
	if err := b.writeAdmin(); err != nil {
		return fmt.Errorf("make the worktree: %w", err)
	}
	files := b.tree()
	files.env = filtersOff(r.all)
	if err := together(
		func() error { return r.perWorktree(ctx) },
		func() error { return b.reserve(ctx, true) },
		func() error {
			_, err := files.run(ctx, "", "read-tree", "--reset", "-u", b.Base)
			return err
		},
	); err != nil {
		return err
	}
	return os.Remove(filepath.Join(b.Admin, "locked"))
}

// together does all at the same time, and says what went wrong first in their order.
func together(all ...func() error) error {
	errs := make([]error, len(all))
	done := make(chan struct{})
	for i, f := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			errs[i] = f()
		}()
	}
	for range all {
		<-done
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// writeAdmin makes the directory that the repository has for a worktree, and the file that
// leads there. Until it is complete, it is locked, so that git does not take it for one
// whose files are gone. It is there with all of this from its first moment: of a part of it
// nobody would know whose it is.
func (b *Bridge) writeAdmin() error {
	parent, draft := filepath.Join(b.Common, "worktrees"), b.adminDraft()
	if err := os.Mkdir(draft, 0o777); err != nil { // one that is there is not ours
		return err
	}
	defer os.RemoveAll(draft)
	for name, text := range map[string]string{
		"locked":    "initializing\n",
		"gitdir":    filepath.Join(b.Tree, ".git") + "\n",
		"commondir": "../..\n",
		"HEAD":      "ref: " + b.branchRef() + "\n",
	} {
		if err := os.WriteFile(filepath.Join(draft, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	if err := os.Mkdir(b.Tree, 0o777); err != nil {
		return err
	}
	admin := filepath.Join(parent, filepath.Base(b.Tree))
	for n := 1; b.Admin == ""; n++ {
		// Who removes the last one of them takes the directory along, at any time.
		if err := os.Mkdir(parent, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		switch err := renameNew(draft, admin); {
		case err == nil:
			b.Admin = admin
		case errors.Is(err, fs.ErrExist):
			admin = filepath.Join(parent, fmt.Sprintf("%s%d", filepath.Base(b.Tree), n))
		case !errors.Is(err, fs.ErrNotExist) || n > 1000:
			return err
		}
	}
	return os.WriteFile(filepath.Join(b.Tree, ".git"), []byte("gitdir: "+b.Admin+"\n"), 0o666)
}

// adminDraft is where a worktree's own directory is before it is in its place, and after. Git
// does not look there.
func (b *Bridge) adminDraft() string { return filepath.Join(b.Common, "coffer-"+b.ID) }
