package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// treeFlags are about the worktree of a new sandbox.
type treeFlags struct {
	branch string
	base   string
	carry  bool
}

func (t *treeFlags) addTo(c *cobra.Command, s *settings) {
	f := c.Flags()
	f.StringVar(&t.branch, "branch", "", "the `BRANCH` to make for the worktree (default: coffer/NAME)")
	f.StringVar(&t.base, "base", "", "the `COMMIT` that the worktree starts from (default: HEAD)")
	f.BoolVar(&t.carry, "carry", false, "bring what is not committed along: changed files, and new ones that git does not ignore")
	w := f.Lookup("workspace")
	w.Usage = "what the sandbox works on: `MODE` is worktree (a git worktree of its own, on a branch of its own; the default in a repository), direct (the current directory; the default elsewhere), cow (changes to the directory wait for 'coffer apply') or none"
	_ = c.RegisterFlagCompletionFunc("workspace", cobra.FixedCompletions([]string{"worktree", "direct", "cow", "none"}, cobra.ShellCompDirectiveNoFileComp))
}

// plannedTree is a worktree that is about to be made, or none.
type plannedTree struct {
	flags      treeFlags
	repository *git.Repository
	base       string
	carrying   git.Carrying
	bridge     *git.Bridge
	told       bool // the user has heard what it does not have
}

// plan decides whether the sandbox gets a worktree, the default in a repository, and whether it can.
func (t treeFlags) plan(ctx context.Context, store *sandbox.Store, s *settings) (*plannedTree, error) {
	if s.workspace != "" && s.workspace != sandbox.WorkspaceTree {
		if t != (treeFlags{}) {
			return nil, usagef("--branch, --base and --carry are about a worktree, which --workspace %s does not make", s.workspace)
		}
		return &plannedTree{}, nil
	}
	here, err := currentDir()
	if err != nil {
		return nil, err
	}
	if top := repositoryOf(here); top == "" && s.workspace == "" && t == (treeFlags{}) {
		s.workspace = sandbox.WorkspaceDirect
		return &plannedTree{}, nil
	} else if err := guardPlanted(store, top); err != nil {
		return nil, err
	}
	p := &plannedTree{flags: t, told: s.told}
	p.carrying.Work = t.carry
	p.carrying.Named = s.conf.Config.Git.Copy
	if t.carry && t.base != "" {
		return nil, usagef("--carry brings changes of HEAD along, and --base starts elsewhere: want one of them")
	}
	p.repository, err = git.Find(ctx, here)
	if errors.Is(err, git.ErrNoRepository) {
		return nil, ui.Error(here+" is not in a git repository", "make one with 'git init', or use --workspace direct")
	}
	if err != nil {
		return nil, err
	}
	if err := s.conf.Floor.EnforceRepository(p.repository.Common, sandbox.Me().Home, true); err != nil {
		return nil, err
	}
	p.base, err = p.repository.Base(ctx, t.base, t.branch)
	if errors.Is(err, git.ErrNoCommit) && s.workspace == "" && t == (treeFlags{}) {
		fmt.Fprintln(os.Stderr, "coffer: the repository has no commit yet, so the sandbox works on the directory itself")
		s.workspace = sandbox.WorkspaceDirect
		return &plannedTree{}, nil
	}
	if errors.Is(err, git.ErrNoCommit) {
		err = ui.Hint(err, "make a first commit, or use --workspace direct")
	}
	s.workspace = sandbox.WorkspaceTree
	return p, err
}

// repositoryOf is the directory at or above this one that has a .git, unless that is an empty placeholder.
func repositoryOf(dir string) string {
	if rootfs.IsGitDir(dir) {
		return dir // a bare one
	}
	for {
		git := filepath.Join(dir, ".git")
		if info, err := os.Lstat(git); err == nil {
			if _, err := os.Lstat(filepath.Join(git, "HEAD")); err == nil || !info.IsDir() {
				return dir
			}
		}
		if dir == "/" {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// guardPlanted refuses a repository below a sandbox's workspace: git would run what its config says.
func guardPlanted(store *sandbox.Store, top string) error {
	all, _ := store.List()
	for _, sb := range all {
		tree := includedIn(sb, top)
		if w := sb.Workspace; top != "" && (w.Mode == sandbox.WorkspaceDirect || w.Mode == sandbox.WorkspaceTree) && safepath.Within(top, w.Path) {
			tree = w.Path
		}
		if tree != "" && tree != top {
			return ui.Error(fmt.Sprintf("%s is in the workspace of sandbox %s, which could have made the repository there, with programs for git to run", top, sb.Name),
				fmt.Sprintf("change to %s, or use --workspace direct", tree))
		}
	}
	return nil
}

// includedIn is the worktree of a repository that a sandbox includes in which a directory is.
func includedIn(sb *sandbox.Sandbox, dir string) string {
	if real, err := filepath.EvalSymlinks(sb.Dir()); err != nil || !safepath.Within(dir, real) {
		return "" // all of them are there
	}
	for _, b := range git.Included(sb.Dir()) {
		if dir == b.Tree || safepath.Within(dir, b.Tree) {
			return b.Tree
		}
	}
	return ""
}

func (p *plannedTree) make(ctx context.Context, sb *sandbox.Sandbox) error {
	if p.repository == nil {
		return nil
	}
	here, err := currentDir()
	if err != nil {
		return err
	}
	defer ui.Busy("making the worktree")()
	p.bridge, err = p.repository.Create(ctx, git.Options{
		ID: sb.ID, Name: sb.Name, Folder: sb.Dir(), Tree: sb.Workspace.Path,
		Branch: p.flags.branch, Base: p.base, Start: here,
	})
	if err == nil {
		err = p.carry(ctx, sb.Record)
	}
	if err != nil {
		p.undo()
	}
	return err
}

// carry brings along what is not committed, but for what the sandbox will not see.
func (p *plannedTree) carry(ctx context.Context, rec sandbox.Record) error {
	if p.carrying.Work && p.repository.Top != "" {
		rec.Workspace.Path = p.repository.Top
		hidden, done, err := hiddenFrom(ctx, &rec)
		if err != nil {
			return err
		}
		defer done()
		p.carrying.Masked = func(path string) bool { return hidden(path, false) }
	}
	left, err := p.bridge.Carry(ctx, p.repository, p.carrying)
	if err != nil {
		return err
	}
	if p.carrying.Work || len(p.carrying.Named) > 0 {
		// Undo leads back to what came along, and not to before.
		if err := p.bridge.Checkpoint(ctx, "(brought along)"); err != nil {
			return err
		}
	}
	if p.told {
		return nil
	}
	for _, path := range left {
		fmt.Fprintf(os.Stderr, "coffer: left behind: %s\n", terminal.Escape(path))
	}
	for _, name := range []string{config.SetupScript, config.ProfileScript} {
		_, here := os.Lstat(filepath.Join(p.repository.Top, name))
		if _, there := os.Lstat(filepath.Join(p.bridge.Tree, name)); p.repository.Top != "" && here == nil && errors.Is(there, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "coffer: the sandbox does not have %s, which is not committed; commit it, or make the sandbox with --carry\n", name)
		}
	}
	return nil
}

// undo takes a worktree back that nobody has worked on.
func (p *plannedTree) undo() {
	if p.bridge != nil {
		_ = p.bridge.Forget(context.Background(), true)
	}
}

// top is the repository's directory, if there is to be a worktree.
func (p *plannedTree) top() string {
	if p.repository == nil {
		return ""
	}
	return p.repository.Top
}

// start is where in the repository the user is, if that is not its top.
func (p *plannedTree) start() string {
	here, err := syscall.Getwd() // as the kernel has it, without links
	if err != nil || p.top() == "" {
		return ""
	}
	if rel, err := filepath.Rel(p.top(), here); err == nil && rel != "." && filepath.IsLocal(rel) && utf8.ValidString(rel) {
		return rel
	}
	return ""
}

// forgetGit removes a sandbox from the user's repositories, but for branches with commits, and returns those that
// went. It runs while the folder still says what there is.
func forgetGit(folder string, branches bool) (gone []string, err error) {
	for _, b := range git.HalfIncluded(folder) {
		_ = b.Forget(context.Background(), b.Admin == "") // without it, nobody has worked there
		sayStayed(b)
		removePlace(b)
	}
	for _, b := range bridgesOf(folder) {
		forgot := b.Forget(context.Background(), branches)
		hint := strings.TrimPrefix(ui.HintOf(forgot)+", and then ", ", and then ") + "run 'coffer gc'" + cmp.Or(b.Where(), " in its repository")
		err = errors.Join(err, ui.Hint(forgot, "%s", hint))
		gone = append(gone, b.Left.Deleted...)
		sayStayed(b)
		if b.Include != "" {
			removePlace(b)
		}
	}
	return gone, err
}

// removePlace removes the directories that a repository was shown at, unless another sandbox shows one there.
func removePlace(b *git.Bridge) {
	store, err := peekStore()
	if err != nil {
		return
	}
	for _, sb := range store.Over(b.Workspace()) {
		if slices.Contains(git.IncludedNames(sb.Dir()), b.Include) {
			return
		}
	}
	b.RemovePlace(b.Workspace())
}

// sayStayed says which branches, stashes and tags of a sandbox that is gone are left.
func sayStayed(b *git.Bridge) {
	for _, branch := range b.Left.Branches {
		fmt.Fprintf(os.Stderr, "coffer: the branch %s stays; delete it with %s%s\n", terminal.Escape(branch), terminal.Escape(ui.Command("git branch -D", branch)), terminal.Escape(b.Where()))
	}
	sayAside(b.Left.Kept, b.Where())
}

func cdCommand() *cobra.Command {
	var repo string
	c := &cobra.Command{
		Use:   "cd [MATCH]",
		Short: "Print the directory that a sandbox works on",
		Long: `Print the directory that a sandbox works on: its worktree, or the directory that it was
made over. A program cannot change its shell's directory; the shell has to do it.`,
		Example: "  cd \"$(coffer cd parser)\"",
		RunE: onSandbox(func(c *cobra.Command, sb *sandbox.Sandbox) error {
			dir := sb.Workspace.Path
			if repo != "" {
				b, err := git.OpenIncluded(sb.Dir(), repo)
				if err != nil {
					return err
				}
				dir = b.Tree
			}
			if dir == "" {
				return fmt.Errorf("sandbox %s has no workspace", sb.Name)
			}
			fmt.Fprintln(stdout, dir)
			return nil
		}),
	}
	repoFlag(c, &repo)
	return c
}
