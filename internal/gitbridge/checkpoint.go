package gitbridge

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/tree"
)

// Checkpoints are those of a worktree sandbox, with what has to be known to take and to
// restore them.
type Checkpoints struct {
	*checkpoint.Store
	bridge *Bridge
	rules  *tree.Ignore
}

// Checkpoints opens them. Whoever does holds the sandbox's lock, or is its supervisor.
func (b *Bridge) Checkpoints(ctx context.Context) (*Checkpoints, error) {
	base, err := b.History().Manifest(ctx, b.Base)
	if err != nil {
		return nil, err
	}
	rules, err := b.ignore(ctx)
	if err != nil {
		return nil, err
	}
	store, err := checkpoint.Open(b.dir, b.Format, base)
	if err != nil {
		return nil, err
	}
	c := &Checkpoints{Store: store, bridge: b, rules: rules}
	store.Seed(b.seeds)
	return c, store.Start(b.Base, b.Branch)
}

// Checkpoint takes one of a sandbox that does not run.
func (b *Bridge) Checkpoint(ctx context.Context, command string) error {
	c, err := b.Checkpoints(ctx)
	if err == nil {
		_, err = c.Take(ctx, command)
	}
	return err
}

// seeds are the files as git wrote them when the worktree was made, from the host's index.
func (b *Bridge) seeds() (all []checkpoint.Seed) {
	path := filepath.Join(b.Admin, "index")
	size := 20
	if b.Format == "sha256" {
		size = 32
	}
	entries, err := rootfs.Index(path, size)
	info, serr := os.Lstat(path)
	if err != nil || serr != nil {
		return nil
	}
	for _, e := range entries {
		// A file that is as young as the index may have changed since unseen.
		if e.Changed >= info.ModTime().UnixNano() || e.Mode == tree.Gitlink {
			continue
		}
		all = append(all, checkpoint.Seed{
			Path: e.Path, Item: tree.Item{Mode: e.Mode, ID: hex.EncodeToString(e.ID)},
			Stat: tree.Stat{Inode: uint64(e.Inode), Size: int64(e.Size), Mtime: e.Mtime, Changed: e.Changed},
		})
	}
	return all
}

// Take takes a checkpoint, if something changed since the last one, and keeps the commit
// that is checked out from being forgotten.
func (c *Checkpoints) Take(ctx context.Context, command string) (*checkpoint.Checkpoint, error) {
	if err := c.bridge.check(); err != nil {
		return nil, err
	}
	head, branch := c.bridge.insideHead()
	taken, err := c.Store.Take(ctx, c.bridge.Tree, c.rules, checkpoint.Checkpoint{Command: command, Head: head, Branch: branch})
	if err != nil || taken == nil {
		return nil, err
	}
	c.keepHead(ctx, taken.N, head)
	return taken, nil
}

// Quiet says, without looking at the files, whether a checkpoint would be as the last.
func (c *Checkpoints) Quiet() bool {
	all := c.All()
	if len(all) == 0 || !c.Store.Quiet() {
		return false
	}
	head, branch := c.bridge.insideHead()
	return all[len(all)-1].Head == head && all[len(all)-1].Branch == branch
}

// Arm looks at the files without taking a checkpoint, so that [Checkpoints.Quiet] can tell.
func (c *Checkpoints) Arm(ctx context.Context) error {
	_, _, err := c.Look(ctx, c.bridge.Tree, c.rules)
	return err
}

// kept is where a commit is held for a checkpoint, in the host's repository, which the
// sandbox sees.
func (b *Bridge) kept(n int) string { return b.own() + "checkpoints/" + strconv.Itoa(n) }

// keepHead holds a commit that the checkpoint before does not hold. It may not have been
// brought over; then only the sandbox has it.
func (c *Checkpoints) keepHead(ctx context.Context, n int, head string) {
	all := c.All()
	i := slices.IndexFunc(all, func(x checkpoint.Checkpoint) bool { return x.N == n })
	if head == "" || i > 0 && all[i-1].Head == head {
		return
	}
	_, _ = c.bridge.refs().run(ctx, "", "update-ref", c.bridge.kept(n), head)
}

// Undo brings back the files and the commit of a checkpoint. What is there now must be a
// checkpoint already, and what is there then becomes another. It returns that one, and
// what could not be brought back.
func (c *Checkpoints) Undo(ctx context.Context, o wire.Opener, n int) (now *checkpoint.Checkpoint, failed map[string]error, err error) {
	if err := c.Note(n); err != nil {
		return nil, nil, err
	}
	return c.Resume(ctx, o)
}

// Resume restores the checkpoint that is noted: it is what Undo does, and what is done
// when somebody was killed in the middle of it. o is nil if nothing runs in the sandbox
// yet, and then only the files are restored.
func (c *Checkpoints) Resume(ctx context.Context, o wire.Opener) (now *checkpoint.Checkpoint, failed map[string]error, err error) {
	n := c.Restoring()
	target, ok := c.Get(n)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("there is no checkpoint %d", n), c.Note(0))
	}
	if failed, err = c.restoreFiles(ctx, n); err != nil {
		return nil, failed, err
	}
	if o != nil {
		if err := c.restoreHead(ctx, o, target); err != nil {
			return nil, failed, fmt.Errorf("the files are restored, the commit is not: %w", err)
		}
	}
	head, branch := c.bridge.insideHead()
	now, err = c.Force(ctx, c.bridge.Tree, c.rules, checkpoint.Checkpoint{Command: fmt.Sprintf("(back to %d)", n), Head: head, Branch: branch})
	if err != nil {
		return nil, failed, err
	}
	c.keepHead(ctx, now.N, head)
	return now, failed, c.Note(0)
}

func (c *Checkpoints) restoreFiles(ctx context.Context, n int) (map[string]error, error) {
	if err := c.bridge.check(); err != nil {
		return nil, err
	}
	want, err := c.Manifest(n)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.Look(ctx, c.bridge.Tree, c.rules); err != nil {
		return nil, err
	}
	blobs, err := c.bridge.History().Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer blobs.Close()
	return c.Restore(ctx, c.bridge.Tree, c.Current(), want, blobs.Read)
}

// busy are the files in a git directory by which git knows that it is in the middle of
// something, and the command that ends it without touching files.
var busy = []struct{ file, command string }{
	{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"},
}

// restoreHead has git inside check out what was checked out. Its index is made that of
// the commit: what was staged is no longer, but the files have it.
func (c *Checkpoints) restoreHead(ctx context.Context, o wire.Opener, target checkpoint.Checkpoint) error {
	b := c.bridge
	if root, err := os.OpenRoot(b.private()); err == nil {
		for _, state := range busy {
			if _, err := root.Lstat(state.file); err == nil {
				_, _, _ = b.ask(ctx, o, state.command, "--quit")
			}
		}
		root.Close()
	}
	orders := [][]string{{"read-tree", "--reset", "HEAD"}}
	if head, branch := b.insideHead(); target.Head != "" && (head != target.Head || branch != target.Branch) {
		ref := "refs/heads/" + target.Branch
		if target.Branch == "" {
			orders = append([][]string{{"update-ref", "-m", "coffer: undo", "--no-deref", "HEAD", target.Head}}, orders...)
		} else {
			orders = append([][]string{{"update-ref", "-m", "coffer: undo", ref, target.Head}, {"symbolic-ref", "-m", "coffer: undo", "HEAD", ref}}, orders...)
		}
	}
	for _, args := range orders {
		if words, status, err := b.ask(ctx, o, args...); err != nil {
			return err
		} else if status != 0 {
			return fmt.Errorf("git %s inside: %s", args[0], words)
		}
	}
	_, _, err := b.ask(ctx, o, "update-index", "-q", "--refresh")
	return err
}

// maxRefs bounds how much of the sandbox's packed refs is read.
const maxRefs = 16 << 20

// insideHead reads what is checked out inside, from the private directory: a commit and
// its branch, or nothing that is understood. All of it is a stranger's.
func (b *Bridge) insideHead() (commit, branch string) {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return "", ""
	}
	defer root.Close()
	head := smallText(root, "HEAD", 4096)
	ref, ok := strings.CutPrefix(head, "ref: refs/heads/")
	if !ok {
		return validCommit(head), ""
	}
	ref = strings.TrimSpace(ref)
	if !plainRef(ref) {
		return "", ""
	}
	if id := validCommit(smallText(root, "refs/heads/"+ref, 4096)); id != "" {
		return id, ref
	}
	for line := range strings.Lines(smallText(root, "packed-refs", maxRefs)) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == "refs/heads/"+ref {
			return validCommit(id), ref
		}
	}
	return "", ref
}

// plainRef says whether a name could be a branch's, as far as it matters to who makes a
// path or an argument of it.
func plainRef(ref string) bool {
	return ref != "" && fs.ValidPath(ref) && ref[0] != '-' && len(ref) < 1024 && !strings.ContainsAny(ref, " ~^:?*[\\\x7f") &&
		!strings.Contains(ref, "@{") && strings.IndexFunc(ref, func(r rune) bool { return r < 0x20 }) < 0
}

func validCommit(s string) string {
	s = strings.TrimSpace(s)
	if (len(s) != 40 && len(s) != 64) || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// smallText reads a file of a directory that a stranger writes: a regular one, following
// nothing out of it, and no more than so much.
func smallText(root *os.Root, name string, limit int64) string {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	return string(text)
}

// A Forked sandbox starts from a checkpoint of another one.
type Forked struct {
	Base string // the commit that its worktree starts from
	from *Checkpoints
	want tree.Manifest
	n    int
}

// Fork finds what a sandbox that is to start from a checkpoint starts from; 0 is the last.
func (c *Checkpoints) Fork(ctx context.Context, n int) (*Forked, error) {
	all := c.All()
	if n == 0 {
		n = all[len(all)-1].N
	}
	at, ok := c.Get(n)
	if !ok {
		return nil, fmt.Errorf("there is no checkpoint %d", n)
	}
	f := &Forked{Base: at.Head, from: c, n: n}
	if at.Head == "" {
		f.Base = c.bridge.Base // nothing was checked out that is understood
	}
	if _, err := c.bridge.refs().text(ctx, "rev-parse", "--verify", "-q", f.Base+"^{commit}"); err != nil {
		return nil, fmt.Errorf("the commit %.12s of checkpoint %d was not brought over", f.Base, n)
	}
	var err error
	f.want, err = c.Manifest(n)
	return f, err
}

// Prepare notes in the folder of the new sandbox what its files are to be, before there
// are any: whoever is killed from here on, the first start finishes it.
func (f *Forked) Prepare(ctx context.Context, folder, branch string) error {
	base, err := f.from.bridge.History().Manifest(ctx, f.Base)
	if err != nil {
		return err
	}
	to, err := checkpoint.Open(folder, f.from.bridge.Format, base)
	if err != nil {
		return err
	}
	if err := f.from.Lend(to, f.want); err != nil {
		return err
	}
	if err := to.Start(f.Base, branch); err != nil {
		return err
	}
	added, err := to.Add(checkpoint.Checkpoint{
		Command: fmt.Sprintf("(from %s at %d)", f.from.bridge.Name, f.n), Head: f.Base, Branch: branch, Files: len(tree.Compare(base, f.want)),
	}, f.want)
	if err != nil {
		return err
	}
	return to.Note(added.N)
}

// Finish gives the new sandbox its files.
func (b *Bridge) Finish(ctx context.Context) (failed map[string]error, err error) {
	c, err := b.Checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	if failed, err = c.restoreFiles(ctx, c.Restoring()); err != nil {
		return failed, err
	}
	return failed, c.Note(0)
}

// Repository is the one that the sandbox belongs to.
func (b *Bridge) Repository(ctx context.Context) (*Repository, error) {
	r := &Repository{Common: b.Common, Dir: b.Common, Prefix: b.Prefix, Format: b.Format}
	return r, r.readConfig(ctx)
}
