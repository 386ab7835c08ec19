package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// Options say what a new worktree is to be.
type Options struct {
	ID, Name string
	Folder   string // the sandbox's
	Tree     string // where the worktree goes, below the folder
	Branch   string // its branch; none is coffer/<name>
	Base     string // a commit, from [Repository.Base]
	Start    string // the directory in which the sandbox is made
	// Include and Inside are for a repository besides the sandbox's own: its name, and
	// where the tree is seen inside.
	Include, Inside string
}

// Base finds the commit that a worktree is to start from, and says whether one can be
// made at all. Nothing is changed.
func (r *Repository) Base(ctx context.Context, word, branch string) (string, error) {
	if err := r.suits(); err != nil {
		return "", err
	}
	base, err := r.commit(ctx, word)
	if err == nil {
		err = r.complete(ctx, base)
	}
	if err != nil {
		return "", err
	}
	if branch == "" {
		return base, nil
	}
	if _, err := r.git().text(ctx, "check-ref-format", "refs/heads/"+branch); err != nil || branch[0] == '-' {
		return "", ui.Error(fmt.Sprintf("%q cannot be the name of a branch", branch), "see 'git help check-ref-format'")
	}
	if strings.HasPrefix(branch, "coffer/") && strings.Contains(branch, "@") {
		return "", ui.Error(fmt.Sprintf("%q cannot be the branch of a sandbox: names such as coffer/…@… are for the branches made inside", branch), "choose another name")
	}
	return base, nil
}

// Create makes a worktree and the sandbox's own git directory for it.
func (r *Repository) Create(ctx context.Context, o Options) (b *Bridge, err error) {
	if o.Branch == "" {
		o.Branch = "coffer/" + o.Name
	}
	folder, err := filepath.EvalSymlinks(o.Folder)
	if err != nil {
		return nil, err
	}
	b = &Bridge{dir: folder, State: State{
		ID: o.ID, Name: o.Name, Common: r.Common, Tree: o.Tree, Start: o.Start, Prefix: r.Prefix,
		Branch: o.Branch, Base: o.Base, Format: r.Format, Upstream: len(r.remotes()) > 0,
		Include: o.Include, Inside: o.Inside, Apart: o.Include != "",
	}}
	if b.Objects, err = r.objects(); err != nil {
		return nil, err
	}
	// Known before it is there: should we be killed, it can be taken away again.
	if err := b.save(); err != nil {
		return nil, err
	}
	if err := b.addWorktree(ctx, r); err != nil {
		return nil, err
	}
	made := b // what is returned is none, if it fails
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Forget(context.WithoutCancel(ctx), true))
		}
	}()
	if err := b.protect(); err != nil {
		return nil, fmt.Errorf("protect the worktree: %w", err)
	}
	if err := b.markLinks(ctx); err != nil {
		return nil, err
	}
	if err := b.age(ctx, r); err != nil {
		return nil, fmt.Errorf("tell the worktree's index how old its files are: %w", err)
	}
	refs, err := snapshot(ctx, r.Common)
	if err == nil {
		err = inTheWay(refs)
	}
	if err != nil {
		return nil, err
	}
	if err := b.writePrivate(r, refs); err != nil {
		return nil, fmt.Errorf("make the sandbox's git directory: %w", err)
	}
	return b, errors.Join(b.save(), b.remember(b.look(), b.outside(), nil))
}

// addWorktree makes the worktree and its branch, or has git do so.
func (b *Bridge) addWorktree(ctx context.Context, r *Repository) error {
	if err := os.MkdirAll(filepath.Dir(b.Tree), 0o700); err != nil {
		return err
	}
	if r.ordinary() {
		return b.layTree(ctx, r)
	}
	if err := r.perWorktree(ctx); err != nil {
		return err
	}
	if err := b.reserve(ctx, false); err != nil {
		return err
	}
	h := r.git()
	h.locks, h.mind = true, true
	_, err := h.run(ctx, "", "worktree", "add", "-q", "--no-track", "-b", b.Branch, b.Tree, b.Base)
	if err != nil {
		return errors.Join(b.taken(err), b.Forget(context.WithoutCancel(ctx), true))
	}
	line, err := firstLine(filepath.Join(b.Tree, ".git"))
	if err != nil {
		return err
	}
	admin, ok := strings.CutPrefix(line, "gitdir: ")
	if !ok || !filepath.IsAbs(admin) || filepath.Dir(admin) != filepath.Join(b.Common, "worktrees") {
		return fmt.Errorf("the new worktree says %q, which is not understood", line)
	}
	b.Admin = admin
	return nil
}

// reserve makes the first refs of our own: where it began, and what both sides agree on. They
// are there before the branch, and only if that is not: so who finds them knows whose it is.
// Or they are made together with it, and before it, for a git that is killed has made some.
func (b *Bridge) reserve(ctx context.Context, branch bool) error {
	last := fmt.Sprintf("verify %s %s\n", b.branchRef(), strings.Repeat("0", len(b.Base)))
	if branch {
		last = fmt.Sprintf("create %s %s\n", b.branchRef(), b.Base)
	}
	err := b.moveRefs(ctx, madeFor+b.dir, fmt.Sprintf("create %sbase %s\ncreate %s%s %s\n", b.own(), b.Base, b.synced(), b.Branch, b.Base)+last)
	if err != nil && strings.Contains(err.Error(), "reference already exists") {
		err = fmt.Errorf("a branch named %s already exists", b.Branch)
	}
	return b.taken(err)
}

// taken says what to do about a branch that cannot be made.
func (b *Bridge) taken(err error) error {
	switch {
	case err == nil || !strings.Contains(err.Error(), "already exists") && !strings.Contains(err.Error(), "cannot lock ref"):
		return err
	case strings.Contains(err.Error(), "'"+wayRef+"' exists"):
		return errWay
	case b.Include != "": // the sandbox has its name already
		return ui.Hint(err, "choose another branch with --branch")
	}
	return ui.Hint(err, "choose another branch with --branch, or another --name; see what is on it with 'git log %s'", b.Branch)
}

// settings are the worktree's own, over those of the repository and of the user. They
// are about what the user types there: nothing among the files shall be run, and what
// they look like shall not be believed where it can be feigned.
const settings = `
# Written by coffer: a sandbox writes the files of this worktree.
[core]
	bare = false
	hooksPath = %s
	fsmonitor = false
	untrackedCache = false
	splitIndex = false
	trustctime = true
	checkStat = default
	ignoreStat = false
[index]
	sparse = false
[sparse]
	expectFilesOutsideOfPatterns = true
[submodule]
	recurse = false
[fetch]
	recurseSubmodules = false
[push]
	recurseSubmodules = no
[diff]
	ignoreSubmodules = all
	submodule = short
[status]
	submoduleSummary = false
`

// protect writes the worktree's settings and the hooks they name.
func (b *Bridge) protect() error {
	if err := b.writeHooks(); err != nil {
		return err
	}
	path := filepath.Join(b.Admin, "config.worktree")
	old, err := os.ReadFile(path) // git copies that of the main worktree
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(path, append(old, fmt.Sprintf(settings, quote(b.hooks()))...), 0o644)
}

// markLinks keeps git out of the submodules of the host's index.
func (b *Bridge) markLinks(ctx context.Context) error {
	index := filepath.Join(b.Admin, "index")
	links, err := rootfs.Gitlinks(index)
	if err != nil {
		return fmt.Errorf("find submodules in the index: %w", err)
	}
	return mark(ctx, b.tree(), links)
}

func mark(ctx context.Context, h host, links []string) error {
	if len(links) == 0 {
		return nil
	}
	_, err := h.run(ctx, strings.Join(links, "\x00")+"\x00", "update-index", "-z", "--skip-worktree", "--stdin")
	return err
}
