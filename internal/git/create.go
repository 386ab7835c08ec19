package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// Options describe a new worktree.
type Options struct {
	ID, Name string
	Folder   string // the sandbox's
	Tree     string // where the worktree goes, below the folder
	Branch   string // its branch; none is coffer/<name>
	Base     string // a commit, from [Repository.Base]
	Start    string // the directory in which the sandbox is made
	// Include and Inside are for a repository besides the sandbox's own: its name, and the
	// path of the tree inside.
	Include, Inside string
}

// Create makes a worktree and the sandbox's own git directory for it.
func (r *Repository) Create(ctx context.Context, o Options) (_ *Bridge, err error) {
	if o.Branch == "" {
		o.Branch = "coffer/" + o.Name
	}
	folder, err := filepath.EvalSymlinks(o.Folder)
	if err != nil {
		return nil, err
	}
	b := &Bridge{dir: folder, State: State{
		ID: o.ID, Name: o.Name, Common: r.Common, Tree: o.Tree, Start: o.Start, Prefix: r.Prefix,
		Branch: o.Branch, Base: o.Base, Format: r.Format, Upstream: len(r.remotes()) > 0,
		Include: o.Include, Inside: o.Inside, Apart: o.Include != "",
	}}
	if b.Objects, err = r.objects(); err != nil {
		return nil, err
	}
	// Saved before anything is made: if we are killed, it can be removed.
	if err := b.save(); err != nil {
		return nil, err
	}
	m := maker{b, r}
	if err := m.addWorktree(ctx); err != nil {
		return nil, errors.Join(m.taken(err), b.Forget(context.WithoutCancel(ctx), true))
	}
	if err := m.complete(ctx); err != nil {
		return nil, errors.Join(err, b.Forget(context.WithoutCancel(ctx), true))
	}
	return b, nil
}

// A maker makes what a new bridge has: the worktree, and the sandbox's git directory.
type maker struct {
	*Bridge
	from *Repository
}

// addWorktree has git make the worktree and its branch. Refs of ours come first, and only
// if there is no such branch: so whoever finds them knows whose it is.
func (b maker) addWorktree(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(b.Tree), 0o700); err != nil {
		return err
	}
	if err := b.from.perWorktree(ctx); err != nil {
		return err
	}
	orders := fmt.Sprintf("create %sbase %s\ncreate %s%s %s\nverify %s %s\n",
		b.own(), b.Base, b.synced(), b.Branch, b.Base, b.branchRef(), strings.Repeat("0", len(b.Base)))
	if err := b.ownRefs().move(ctx, madeFor+b.dir, orders); err != nil {
		return err
	}
	h := b.from.git()
	h.locks, h.mind = true, true
	_, err := h.run(ctx, "", "worktree", "add", "-q", "--no-track", "-b", b.Branch, b.Tree, b.Base)
	return err
}

// complete makes the rest of a worktree that git has added.
func (b maker) complete(ctx context.Context) error {
	line, err := firstLine(filepath.Join(b.Tree, ".git"))
	if err != nil {
		return err
	}
	admin, ok := strings.CutPrefix(line, "gitdir: ")
	if !ok || !filepath.IsAbs(admin) || filepath.Dir(admin) != filepath.Join(b.Common, "worktrees") {
		return fmt.Errorf("the new worktree says %q, which is not understood", line)
	}
	b.Admin = admin
	if err := b.protect(); err != nil {
		return fmt.Errorf("protect the worktree: %w", err)
	}
	links, err := rootfs.Gitlinks(filepath.Join(b.Admin, "index"))
	if err == nil {
		err = mark(ctx, b.tree(), links)
	}
	if err != nil {
		return fmt.Errorf("mark the submodules of the index: %w", err)
	}
	refs, err := b.refs().usersRefs(ctx)
	if err == nil {
		err = inTheWay(refs)
	}
	if err != nil {
		return err
	}
	if err := b.writePrivate(refs); err != nil {
		return fmt.Errorf("make the sandbox's git directory: %w", err)
	}
	return errors.Join(b.save(), b.remember(b.Glance(), b.outside(), nil, nil))
}

// taken adds a hint to the error about a branch that cannot be made.
func (b maker) taken(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "'"+wayRef+"' exists"):
		return errWay
	case strings.Contains(text, "reference already exists"):
		err = fmt.Errorf("a branch named %s already exists", b.Branch)
	case !strings.Contains(text, "already exists") && !strings.Contains(text, "cannot lock ref"):
		return err
	}
	if b.Include != "" { // the sandbox has its name already
		return ui.Hint(err, "choose another branch with --branch")
	}
	return ui.Hint(err, "choose another branch with --branch, or another --name; see what is on it with %s", ui.Command("git log", b.Branch))
}

// settings are the worktree's own, above those of the repository and the user. They are
// about what the user types there: nothing among the files is run, and nothing about them
// that can be feigned is believed.
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
func (b maker) protect() error {
	if err := b.hooks().write(); err != nil {
		return err
	}
	path := filepath.Join(b.Admin, "config.worktree")
	old, err := os.ReadFile(path) // git copies that of the main worktree
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(path, append(old, fmt.Sprintf(settings, quote(b.hooks().dir()))...), 0o644)
}

// mark keeps git out of the submodules of an index: without the mark, it looks into each
// whatever diff.ignoreSubmodules says, if a .gitmodules file asks for it.
func mark(ctx context.Context, h host, links []string) error {
	if len(links) == 0 {
		return nil
	}
	_, err := h.run(ctx, strings.Join(links, "\x00")+"\x00", "update-index", "-z", "--skip-worktree", "--stdin")
	return err
}

// perWorktree lets worktrees have a config of their own, as git-worktree(1) describes: what
// is about the main one only moves to that one's config.
func (r *Repository) perWorktree(ctx context.Context) error {
	if r.config["extensions.worktreeconfig"] == "true" {
		return nil
	}
	common, own := filepath.Join(r.Common, "config"), filepath.Join(r.Common, "config.worktree")
	for _, key := range []string{"core.bare", "core.worktree"} {
		if known := r.config[key]; known == "" || known == "false" {
			continue // no file says so
		}
		value, err := r.git().text(ctx, "config", "--file", common, "--get", key)
		if code(err) == 1 || err == nil && key == "core.bare" && value != "true" {
			continue
		}
		if err == nil {
			err = r.configure(ctx, "--file", own, key, value)
		}
		if err == nil {
			err = r.configure(ctx, "--file", common, "--unset-all", key)
		}
		if err != nil && code(err) != gitUnset {
			return fmt.Errorf("give worktrees a config of their own: %w", err)
		}
	}
	if err := r.configure(ctx, "--file", common, "extensions.worktreeConfig", "true"); err != nil {
		return fmt.Errorf("give worktrees a config of their own: %w", err)
	}
	return nil
}

// gitUnset is git config's exit code when there is nothing to remove: another one who makes
// a worktree was quicker.
const gitUnset = 5

// configure has git write a config. Git does not wait for the lock, so this does, for five
// seconds.
func (r *Repository) configure(ctx context.Context, args ...string) error {
	for try := 1; ; try++ {
		_, err := r.git().run(ctx, "", append([]string{"config"}, args...)...)
		var said *Error
		if !errors.As(err, &said) || !said.isConfigLocked() || try == 250 || !pause(ctx, 20*time.Millisecond) {
			return err
		}
	}
}
