package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// restore brings back the files and the commit of a checkpoint. o is nil if nothing runs in
// the sandbox yet, and then only the files are restored. It returns what could not be brought
// back.
func (c *Checkpoints) restore(ctx context.Context, o wire.Opener, target checkpoint.Checkpoint) (failed map[string]error, err error) {
	if failed, err = c.restoreFiles(ctx, target.N); err != nil || o == nil {
		return failed, err
	}
	if err := c.restoreHead(ctx, o, target); err != nil {
		return failed, fmt.Errorf("the files are restored, the commit is not: %w", err)
	}
	return failed, nil
}

func (c *Checkpoints) restoreFiles(ctx context.Context, n int) (map[string]error, error) {
	w, err := c.open()
	if err != nil {
		return nil, err
	}
	defer w.Top.Close()
	want, err := c.Manifest(n)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.Look(ctx, w); err != nil {
		return nil, err
	}
	is := c.Current()
	edited, err := c.editedSince(is, want)
	if err != nil {
		return nil, err
	}
	blobs, err := c.bridge.History().Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer blobs.Close()
	failed, err := c.Restore(ctx, w, is, want, blobs.Read)
	for _, path := range edited {
		failed[path] = errEditedSince
	}
	return failed, err
}

var errEditedSince = errors.New("you changed it after the undo began, and it stays so")

// editedSince removes from want the files of the user's own directory that are neither as they
// were when the undo began nor as it leaves them: an undo that was killed may resume hours later.
func (c *Checkpoints) editedSince(is, want checkpoint.Manifest) (paths []string, err error) {
	all := c.All()
	if !c.bridge.Laid || len(all) == 0 {
		return nil, nil
	}
	began, err := c.Manifest(all[len(all)-1].N)
	if err != nil {
		return nil, err
	}
	for _, d := range checkpoint.Compare(is, want) {
		if d.Old == began[d.Path] {
			continue
		}
		paths = append(paths, d.Path)
		if want[d.Path] = d.Old; d.Old.Mode == 0 {
			delete(want, d.Path)
		}
	}
	return paths, nil
}

// Yours lists the files that the user has changed after a checkpoint, as far as to restore
// it would change them back. In a worktree, all is the sandbox's.
func (c *Checkpoints) Yours(n int) (paths []string, err error) {
	all := c.All()
	at := slices.IndexFunc(all, func(x checkpoint.Checkpoint) bool { return x.N == n })
	if !c.bridge.Laid || at < 0 {
		return nil, nil
	}
	yours := map[string]bool{}
	for i := at + 1; i < len(all); i++ {
		if all[i].Command != Meanwhile {
			continue
		}
		changed, err := c.Changed(all[i-1].N, all[i].N)
		if err != nil {
			return nil, err
		}
		for _, p := range changed {
			yours[p] = true
		}
	}
	if len(yours) == 0 {
		return nil, nil
	}
	back, err := c.Changed(n, all[len(all)-1].N)
	if err != nil {
		return nil, err
	}
	for _, p := range back {
		if yours[p] && !(c.access.Hidden != nil && c.access.Hidden(p)) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// A busyState is a file in a git directory by which git knows that it is in the middle of
// something, and the command that ends that without touching files.
type busyState struct{ file, command string }

var busy = []busyState{
	{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"},
}

// patienceHead is how long git inside may take to check out what was checked out, all in all.
var patienceHead = 20 * time.Second

// restoreHead has git inside check out what was checked out. Its index becomes that of the
// commit: nothing is staged any more, but the files have it.
func (c *Checkpoints) restoreHead(ctx context.Context, o wire.Opener, target checkpoint.Checkpoint) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patienceHead, ui.Error(fmt.Sprintf("git inside did not answer within %v", patienceHead), "see what it waits for: git status, inside"))
	defer cancel()
	f := far{&c.bridge.State, o}
	ask := func(args ...string) error {
		words, status, err := f.git(ctx, append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && status != 0:
			return fmt.Errorf("git %s inside: %s", args[0], words)
		}
		return err
	}
	for _, state := range busy {
		if c.bridge.private().has(state.file) {
			_ = ask(state.command, "--quit")
		}
	}
	for _, args := range c.headOrders(target) {
		if err := ask(args...); err != nil {
			return err
		}
	}
	_ = ask("update-index", "-q", "--refresh") // it fails if a file is not as in the commit
	return context.Cause(ctx)
}

// headOrders are the commands by which git inside gets to the commit and the branch of a
// checkpoint, and to an index without anything staged. Over a directory of the user's, a
// sandbox that had committed nothing goes to where the user is now.
func (c *Checkpoints) headOrders(target checkpoint.Checkpoint) [][]string {
	want, ref := target.Head, "refs/heads/"+target.Branch
	if c.bridge.Laid && target.Head == target.Base {
		want = c.bridge.baseNow()
	}
	index := []string{"read-tree", "--reset", "HEAD"}
	head, branch := c.bridge.private().head()
	switch {
	case want == "" && target.Branch == "" || head == want && branch == target.Branch && want != "":
		return [][]string{index}
	case want == "": // nothing was committed on that branch yet
		return [][]string{{"symbolic-ref", "-m", "coffer: undo", "HEAD", ref}, {"update-ref", "-m", "coffer: undo", "-d", ref}, {"read-tree", "--empty"}}
	case target.Branch == "":
		return [][]string{{"update-ref", "-m", "coffer: undo", "--no-deref", "HEAD", want}, index}
	}
	return [][]string{{"update-ref", "-m", "coffer: undo", ref, want}, {"symbolic-ref", "-m", "coffer: undo", "HEAD", ref}, index}
}
