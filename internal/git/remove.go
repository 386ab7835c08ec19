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
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

// Dirty counts the files of the worktree with changes that are in no commit.
func (b *Bridge) Dirty(ctx context.Context) (int, error) {
	if err := b.check(); err != nil || b.Laid { // then the files stay where they are
		return 0, err
	}
	h := b.tree()
	h.locks, h.mind = false, true
	out, err := h.run(ctx, "", "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", "--untracked-files=normal")
	if err != nil {
		return 0, err
	}
	return strings.Count(out, "\x00"), nil
}

// Unmerged counts the commits of the sandbox's branches that are on no other branch, tag
// or remote, neither themselves nor by what they change.
func (b *Bridge) Unmerged(ctx context.Context) (int, error) {
	ours, others, err := b.tips(ctx)
	if err != nil {
		return 0, err
	}
	n, err := b.beyond(ctx, ours, others)
	if err != nil || n == 0 {
		return n, err
	}
	// Commits of another sandbox's are not looked for by what they change.
	left := b.unmerged(ctx, ours, "refs/heads/", "refs/remotes/")
	for _, id := range ours {
		if !slices.Contains(left, id) {
			others = append(others, id)
		}
	}
	return b.beyond(ctx, left, others)
}

// tips are the commits that the sandbox's refs point to, and those that others do. They are
// ids: whoever removes another sandbox meanwhile takes refs away, and the objects stay.
func (b *Bridge) tips(ctx context.Context) (ours, others []string, err error) {
	out, err := b.refs().run(ctx, "", "for-each-ref", "--format=%(objectname) %(refname)", "refs/")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(out) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, ok := b.inside(ref); ok || strings.HasPrefix(ref, b.incoming()) {
			ours = append(ours, id)
		} else if !strings.HasPrefix(ref, "refs/coffer/") {
			others = append(others, id)
		}
	}
	if b.Base != "" {
		others = append(others, b.Base)
	}
	slices.Sort(ours)
	return slices.Compact(ours), others, nil
}

// beyond counts the commits that are in ours and not in others.
func (b *Bridge) beyond(ctx context.Context, ours, others []string) (count int, err error) {
	if len(ours) == 0 {
		return 0, nil
	}
	var args strings.Builder
	for _, id := range ours {
		args.WriteString(id + "\n")
	}
	for _, id := range others {
		args.WriteString("^" + id + "\n")
	}
	n, err := b.refs().run(ctx, args.String(), "rev-list", "--count", "--stdin")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(n, &count)
	return count, err
}

// Gone says whether somebody removed the worktree, and did not move it.
func (b *Bridge) Gone() bool {
	if b.Admin == "" || b.Laid {
		return false
	}
	if _, err := os.Lstat(b.Tree); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	back, err := firstLine(filepath.Join(b.Admin, "gitdir"))
	return err != nil || filepath.Clean(back) == filepath.Join(b.Tree, ".git")
}

// MayRemove says what would be lost with the sandbox, or easily forgotten. A tree that is
// gone holds nothing.
func (b *Bridge) MayRemove(ctx context.Context, branches bool) error {
	n, err := b.Dirty(ctx)
	if err != nil && !errors.Is(err, ErrTreeGone) {
		return ui.Hint(err, "remove it all the same with --force")
	}
	if n > 0 {
		return ui.Error(fmt.Sprintf("%s has %s not committed", b.title(), several(n, "changed file", "that is", "that are")),
			fmt.Sprintf("see 'coffer diff %s', or remove it all the same with --force", b.Words()))
	}
	if b.seen.Inside != b.look() {
		return ui.Error(fmt.Sprintf("%s has not synced its latest commits with your repository yet", b.title()),
			fmt.Sprintf("sync them with 'coffer exec -m %s -- true', or remove it all the same with --force", b.Name))
	}
	if n, err = b.Unmerged(ctx); err != nil {
		return ui.Hint(err, "remove it all the same with --force")
	}
	if n == 0 {
		return nil
	}
	stays := "remove it with --force: the branch stays"
	if branches {
		stays = "remove it and them with --force"
	}
	return ui.Error(fmt.Sprintf("%s has %s on no other branch", b.title(), several(n, "commit", "that is", "that are")),
		fmt.Sprintf("see 'git log %s'%s and 'coffer merge %s', or %s", b.Branch, b.Where(), b.Words(), stays))
}

// several counts things of which something is said.
func several(n int, thing, is, are string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s %s", thing, is)
	}
	return fmt.Sprintf("%d %ss %s", n, thing, are)
}

// Forget takes the worktree out of the host's repository: its own directory there, and
// the refs that are nobody else's. A branch with commits that are merged nowhere stays,
// unless branches are to go; see [Bridge.Stayed]. The files are the caller's to remove.
func (b *Bridge) Forget(ctx context.Context, branches bool) error {
	if _, err := os.Stat(b.Common); errors.Is(err, fs.ErrNotExist) {
		return nil // the whole repository is gone
	}
	if !b.Laid {
		if err := b.forgetAdmin(); err != nil {
			return err
		}
	}
	s := &session{Bridge: b}
	if err := s.read(ctx); err != nil {
		return err
	}
	b.noteKept(s.refs)
	// Without the first of our refs, the branch was there before us, or we do not know.
	made := s.refs[b.own()+"base"].id != "" || b.Laid && b.Base == ""
	var doubtful, ids []string // branches of ours, that stay if they are not merged
	for ref, t := range s.refs {
		_, public := b.inside(ref)
		switch {
		case !public, made && t.tree == "" && (branches || t.id == b.Base):
			b.drop(s, ref)
		case made && t.tree == "" && strings.HasPrefix(ref, "refs/heads/coffer/"): // who gave it another name may want it
			doubtful, ids = append(doubtful, ref), append(ids, t.id)
		case made:
			b.stayed = append(b.stayed, short(ref))
		}
	}
	left := b.unmerged(ctx, ids, "refs/heads/")
	for _, ref := range doubtful {
		if slices.Contains(left, s.refs[ref].id) {
			b.stayed = append(b.stayed, short(ref))
		} else {
			b.drop(s, ref)
		}
	}
	slices.Sort(b.stayed)
	if err := s.write(ctx); err != nil {
		return err
	}
	_, stays := s.refs[b.branchRef()]
	b.clearRefs(ctx, stays)
	return nil
}

// drop deletes a ref, and notes it if it is a branch.
func (b *Bridge) drop(s *session, ref string) {
	s.set(ref, "")
	if strings.HasPrefix(ref, "refs/heads/") {
		b.dropped = append(b.dropped, short(ref))
	}
}

// Dropped are the branches that [Bridge.Forget] has deleted.
func (b *Bridge) Dropped() []string { return b.dropped }

// Stayed are the branches that [Bridge.Forget] has left.
func (b *Bridge) Stayed() []string { return b.stayed }

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// forgetAdmin removes the worktree's own directory, if it is still ours. Not 'git
// worktree prune', which removes those of others as well.
func (b *Bridge) forgetAdmin() error {
	draft := b.adminDraft()
	if err := os.RemoveAll(draft); err != nil { // of who was killed
		return fmt.Errorf("forget the worktree: %w", err)
	}
	if b.Admin == "" { // we were killed while it was made
		all, _ := filepath.Glob(filepath.Join(escapeGlob(b.Common), "worktrees", "*", "gitdir"))
		for _, file := range all {
			if back, err := firstLine(file); err == nil && filepath.Clean(back) == filepath.Join(b.Tree, ".git") {
				b.Admin = filepath.Dir(file)
			}
		}
	}
	all := filepath.Join(b.Common, "worktrees")
	defer os.Remove(all) // if it was the last
	if filepath.Dir(b.Admin) != all {
		return nil // there never was one
	}
	back, err := firstLine(filepath.Join(b.Admin, "gitdir"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && filepath.Clean(back) != filepath.Join(b.Tree, ".git") {
		return nil
	}
	if err != nil {
		return err
	}
	// All at once: of a part of it nobody would know whose it is. And a git that somebody who was
	// killed has left behind does not find it any more.
	if os.Rename(b.Admin, draft) != nil {
		draft = b.Admin // then as it goes
	}
	err = os.RemoveAll(draft)
	for range 100 { // unless it stands there
		if !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
		err = os.RemoveAll(draft)
	}
	if err != nil {
		return fmt.Errorf("forget the worktree: %w", err)
	}
	return nil
}
