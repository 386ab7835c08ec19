package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	return strings.Count(out, "\x00"), err
}

// Unmerged counts the commits of the sandbox's branches that are merged nowhere.
func (b *Bridge) Unmerged(ctx context.Context) (int, error) { return b.merges().unmerged(ctx) }

// Gone reports whether somebody removed the worktree, and did not move it.
func (s *State) Gone() bool {
	return s.Admin != "" && !s.Laid && !exists(s.Tree) && (!exists(filepath.Join(s.Admin, "gitdir")) || s.isAdmin(s.Admin))
}

// MayRemove is an error if something would be lost with the sandbox, or easily forgotten. A
// tree that is gone holds nothing.
func (b *Bridge) MayRemove(ctx context.Context, branches bool) error {
	n, err := b.Dirty(ctx)
	if err != nil && !errors.Is(err, ErrTreeGone) {
		return ui.Hint(err, "remove it all the same with --force")
	}
	if n > 0 {
		return ui.Error(fmt.Sprintf("%s has %s not committed", b.title(), several(n, "changed file", "that is", "that are")),
			fmt.Sprintf("see 'coffer diff %s', or remove it all the same with --force", b.Words()))
	}
	if b.Behind() {
		return ui.Error(fmt.Sprintf("%s has not synced its latest commits with your repository yet", b.title()), b.fetchHint()+", or remove it all the same with --force")
	}
	if n, err = b.merges().unmerged(ctx); err != nil {
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
		fmt.Sprintf("see %s%s and 'coffer merge %s', or %s", ui.Command("git log", b.Branch), b.Where(), b.Words(), stays))
}

func several(n int, thing, is, are string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s %s", thing, is)
	}
	return fmt.Sprintf("%d %ss %s", n, thing, are)
}

// Left is what [Bridge.Forget] did with branches, and which stashes and tags are left.
type Left struct {
	Branches, Deleted []string
	Kept              []Kept
}

// Forget takes the worktree out of the host's repository: its own directory there, and the
// refs that are nobody else's. A branch with commits that are merged nowhere stays, unless
// branches are to go; see Bridge.Left. The caller removes the files.
func (b *Bridge) Forget(ctx context.Context, branches bool) error {
	if !exists(b.Common) {
		return nil // the whole repository is gone
	}
	if !b.Laid {
		if err := b.forgetAdmin(); err != nil {
			return fmt.Errorf("forget the worktree: %w", err)
		}
	}
	e, err := b.ownRefs().read(ctx)
	if err != nil {
		return err
	}
	drop := func(ref string) {
		e.set(ref, "")
		b.Left.Deleted = append(b.Left.Deleted, short(ref))
	}
	// Without the first of our refs, the branch was there before us, or we do not know.
	made := e.now[b.own()+"base"].ID != "" || b.Laid && b.Base == ""
	var doubtful, ids []string // branches of ours, that stay if they are not merged
	for ref, r := range e.was {
		_, public := b.inside(ref)
		name := strings.TrimPrefix(ref, b.own())
		switch {
		case !public:
			e.set(ref, "")
			if slices.ContainsFunc(kept, func(kind string) bool { return strings.HasPrefix(name, kind) }) {
				b.Left.Kept = append(b.Left.Kept, b.keptOne(name))
			}
		case made && r.tree == "" && (branches || r.ID == b.Base):
			drop(ref)
		case made && r.tree == "" && strings.HasPrefix(ref, wayRef+"/"): // a branch by another name the user may want
			doubtful, ids = append(doubtful, ref), append(ids, r.ID)
		case made:
			b.Left.Branches = append(b.Left.Branches, short(ref))
		}
	}
	left := b.merges().without(ctx, ids, "refs/heads/")
	for _, ref := range doubtful {
		if slices.Contains(left, e.was[ref].ID) {
			b.Left.Branches = append(b.Left.Branches, short(ref))
		} else {
			drop(ref)
		}
	}
	slices.Sort(b.Left.Branches)
	slices.SortFunc(b.Left.Kept, func(x, y Kept) int { return strings.Compare(x.Take, y.Take) })
	if err := e.write(ctx); err != nil {
		return err
	}
	_, stays := e.now[b.branchRef()]
	b.ownRefs().clear(ctx, stays)
	return nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// forgetAdmin removes the worktree's own directory, if it is still ours. Not 'git worktree
// prune', which removes those of others as well.
func (s *State) forgetAdmin() error {
	all := filepath.Join(s.Common, "worktrees")
	defer os.Remove(all) // if it was the last
	draft := filepath.Join(s.Common, "coffer-"+s.ID)
	if err := removeAll(draft); err != nil { // of one of us who was killed
		return err
	}
	if s.Admin == "" { // we were killed while it was made
		dirs, _ := filepath.Glob(filepath.Join(escapeGlob(all), "*"))
		if i := slices.IndexFunc(dirs, s.isAdmin); i >= 0 {
			s.Admin = dirs[i]
		} else if named := filepath.Join(all, filepath.Base(s.Tree)); s.Tree != "" && !exists(filepath.Join(named, "gitdir")) {
			return removeAll(named) // git was killed too, before it wrote whose it is or while it took back
		}
	}
	if filepath.Dir(s.Admin) != all || !s.isAdmin(s.Admin) {
		return nil
	}
	// All at once: nobody would know whose a part of it is.
	if os.Rename(s.Admin, draft) != nil {
		draft = s.Admin
	}
	return removeAll(draft)
}

// removeAll removes a directory in which a git that was left behind may still write.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	for try := 0; errors.Is(err, syscall.ENOTEMPTY) && try < 100; try++ {
		time.Sleep(20 * time.Millisecond)
		err = os.RemoveAll(dir)
	}
	return err
}

// sandboxID is what names of sandboxes' refs look like.
var sandboxID = regexp.MustCompile(`^[a-z0-9]{8}$`)

// Orphans finds what sandboxes of a store, whose folders were deleted, have left in a
// repository. The log of a sandbox's first ref names its folder, and the worktree's own
// directory the worktree. Those of other stores are nobody's business here. What is found can
// be forgotten, and nothing else.
func Orphans(ctx context.Context, common, store string) (all []*Bridge) {
	store, err := filepath.EvalSymlinks(store)
	if err != nil {
		return nil
	}
	known := map[string]bool{}
	add := func(path, of string, b *Bridge) {
		rest, ok := strings.CutPrefix(path, store+"/")
		id, _, _ := strings.Cut(rest, "/")
		if _, err := os.Lstat(filepath.Join(store, id)); !ok || known[id] || of != "" && of != id || !sandboxID.MatchString(id) || !errors.Is(err, fs.ErrNotExist) {
			return
		}
		known[id] = true
		b.ID, b.Common = id, common
		b.ownRefs().find(ctx)
		all = append(all, b)
	}
	files, _ := filepath.Glob(filepath.Join(escapeGlob(common), "worktrees", "*", "gitdir"))
	for _, file := range files {
		if git, err := firstLine(file); err == nil {
			add(git, "", &Bridge{State: State{Admin: filepath.Dir(file), Tree: filepath.Dir(filepath.Clean(git))}})
		}
	}
	h := host{dir: "/", where: []string{"--git-dir=" + common}}
	refs, _ := h.list(ctx, "refs/coffer/*/base")
	for _, ref := range refs {
		said, _ := h.run(ctx, "", "log", "-g", "--format=%gs", ref.Name, "--")
		for line := range strings.Lines(said) {
			if folder, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), madeFor); ok {
				add(folder, strings.Split(ref.Name, "/")[2], &Bridge{State: State{Laid: true}})
			}
		}
	}
	return all
}

// find reads from the refs of a sandbox what its folder would have told.
func (o ownRefs) find(ctx context.Context) {
	refs, _ := o.git.list(ctx, o.own())
	for _, ref := range refs {
		if ref.Name == o.own()+"base" {
			o.Base = ref.ID
		}
		if branch, ok := strings.CutPrefix(ref.Name, o.synced()); ok && (o.Branch == "" || strings.HasPrefix(branch, "coffer/")) {
			o.Branch = branch
		}
	}
	o.Name = strings.TrimPrefix(o.Branch, "coffer/")
}
