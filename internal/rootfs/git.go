package rootfs

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// Git runs programs that its directory names: hooks, and whatever config says. They
// would run on the host, as the user, the next time the user types git in the
// workspace. So everything of the workspace that git takes such names from is made
// read-only, and a mount point, and so is every directory above it: what is a mount
// point can be neither renamed nor removed.

// protectGit protects the repository in a workspace. covered says that another .git will
// lie over its own, which then cannot be reached at all.
func protectGit(workspace, home string, covered bool) ([]Step, error) {
	git := filepath.Join(workspace, ".git")
	info, err := os.Lstat(git)
	switch {
	case os.IsNotExist(err):
		return submodulesAbove(workspace)
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", git, err)
	case info.Mode()&os.ModeSymlink != 0:
		return nil, ui.Error(fmt.Sprintf("%s is a symbolic link, which cannot be protected", git), "use --workspace cow")
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a directory nor a file", git)
	}
	p := protection{workspace: workspace, covered: covered, seen: map[string]bool{}}
	if !covered {
		p.lock(git)
	}
	own := git // the worktree's own directory, with its index
	config := git
	if !info.IsDir() {
		own, config = p.gitFile(git)
	}
	places := references(workspace, home, git, git)
	if own != "" {
		if places, err = (Repository{Own: own, Common: config}).References(workspace, home); err != nil {
			return nil, ui.Hint(err, "%s", cmp.Or(ui.HintOf(err), "use --workspace cow"))
		}
	}
	for _, place := range places {
		if err := p.refer(place); err != nil {
			return nil, err
		}
	}
	return p.steps, nil
}

// submodulesAbove protects those of the repository that a workspace is in.
func submodulesAbove(workspace string) ([]Step, error) {
	p := protection{workspace: workspace, seen: map[string]bool{}}
	above := RepositoryAbove(workspace)
	index := IndexOf(above)
	if f, err := openRegular(index); above == "" || err != nil || f.Close() != nil {
		return nil, nil // what the user's git cannot read, either
	}
	places, err := Submodules(above, index)
	if err != nil {
		return nil, ui.Hint(err, "use --workspace cow")
	}
	for _, place := range places {
		if err := p.refer(place); err != nil {
			return nil, err
		}
	}
	return p.steps, nil
}

// RepositoryAbove finds the directory with the repository that a directory without one of its own is
// in, or nothing.
func RepositoryAbove(dir string) string {
	for dir != "/" {
		dir = filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
	}
	return ""
}

// steps shows a workspace its private git directory. The file that leads to it lies over
// the one that leads git outside to the host's: a mount point, which cannot be renamed,
// removed or, being read-only, written.
func (g *Git) steps(workspace string) []Step {
	steps := []Step{
		{Do: Bind, Source: g.Dir, Target: g.At, Mine: true},
		{Do: Bind, Source: g.Host, Target: g.HostAt, Mine: true, ReadOnly: true},
	}
	if g.File != "" {
		steps = append(steps, Step{Do: Bind, Source: g.File, Target: filepath.Join(workspace, ".git"), Mine: true, ReadOnly: true})
	}
	for _, m := range g.Submodules {
		at := filepath.Join(workspace, m.Target)
		steps = append(steps, Step{Do: Bind, Source: m.Source, Target: at, Mine: true})
		for _, above := range Above(m.Target) {
			steps = append(steps, Step{Do: Anchor, Data: workspace, Target: filepath.Join(workspace, above)})
		}
	}
	if g.Large != "" {
		steps = append(steps, Step{Do: Bind, Source: g.Large, Target: filepath.Join(g.ObjectsAt, "lfs", "objects"), Mine: true, ReadOnly: true})
	}
	if g.Modules != "" {
		// The sandbox may have put something else there, and goes without then.
		steps = append(steps, Step{Do: Bind, Source: g.Modules, Target: filepath.Join(g.At, "modules"), Mine: true, ReadOnly: true, Optional: true})
	}
	for i, objects := range g.Objects {
		at := filepath.Join(g.ObjectsAt, strconv.Itoa(i))
		steps = append(steps, Step{Do: Bind, Source: objects, Target: at, Mine: true, ReadOnly: true},
			// It names places of the host; they are listed by the private directory.
			Step{Do: Mask, Target: filepath.Join(at, "info", "alternates"), Optional: true})
	}
	return steps
}

// IndexOf is where the index is of the repository, or worktree, that a directory is the
// root of.
func IndexOf(dir string) string {
	git := filepath.Join(dir, ".git")
	if to, err := named(git); err == nil && to != "" {
		git = to
	}
	return filepath.Join(git, "index")
}

// named is the git directory that a .git file names, empty if it names none.
func named(file string) (dir string, err error) {
	line, err := firstLine(file)
	dir, ok := strings.CutPrefix(line, "gitdir: ")
	if ok && !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	if !ok {
		dir = ""
	}
	return dir, err
}

// IsGitDir says whether git would take a directory itself for a git directory.
func IsGitDir(dir string) bool {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

// protection collects the steps that protect a repository.
type protection struct {
	workspace string
	covered   bool
	steps     []Step
	seen      map[string]bool
}

// lock makes a path of the workspace read-only and pins what is above it.
func (p *protection) lock(path string) {
	if p.seen[path] {
		return
	}
	for _, step := range append(pins(p.workspace, path), Step{Do: Lock, Target: path}) {
		if !p.seen[step.Target] {
			p.seen[step.Target] = true
			p.steps = append(p.steps, step)
		}
	}
}

// pins keeps the directories between a workspace and a path in it where they are.
func pins(workspace, path string) (steps []Step) {
	for _, dir := range Above(strings.TrimPrefix(path, workspace+"/")) {
		steps = append(steps, Step{Do: Pin, Target: filepath.Join(workspace, dir)})
	}
	return steps
}

// gitFile follows a .git file. A git directory inside the workspace is protected; one
// outside is shown read-only if it agrees that this is a worktree of its own: the file
// could name any directory. It returns the worktree's own directory and the one with
// the repository's config, or nothing.
func (p *protection) gitFile(file string) (own, config string) {
	dir, _ := named(file)
	if dir == "" {
		return "", ""
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", ""
	}
	if safepath.Within(dir, p.workspace) {
		p.lock(dir)
		return dir, dir
	}
	common, ok := worktree(file, dir)
	if !ok {
		return "", ""
	}
	if !safepath.Within(common, p.workspace) && !p.covered {
		p.steps = append(p.steps, Step{Do: Bind, Source: common, Target: common, ReadOnly: true, Mine: true})
	}
	return dir, common
}

// worktree returns the git directory of the main repository, if the worktree's own
// directory below it names the .git file in return.
func worktree(file, dir string) (common string, ok bool) {
	back, err := firstLine(filepath.Join(dir, "gitdir"))
	if err != nil || back == "" {
		return "", false
	}
	if !filepath.IsAbs(back) { // git 2.48 and later, if asked
		back = filepath.Join(dir, back)
	}
	if at, err := filepath.EvalSymlinks(filepath.Dir(back)); err == nil {
		back = filepath.Join(at, filepath.Base(back))
	}
	if filepath.Clean(back) != file {
		return "", false
	}
	up, err := firstLine(filepath.Join(dir, "commondir"))
	if err != nil {
		return "", false
	}
	if !filepath.IsAbs(up) {
		up = filepath.Join(dir, up)
	}
	common, err = filepath.EvalSymlinks(up)
	return common, err == nil && filepath.Base(filepath.Dir(dir)) == "worktrees" && filepath.Dir(filepath.Dir(dir)) == common
}

// refer protects a path in the workspace that git's configuration or index refers to: hooks, an included
// file, or a submodule, into which git status looks and runs what its config names. A submodule that was
// never checked out is an empty directory, which stays so.
func (p *protection) refer(path string) error {
	if path == p.workspace || !safepath.Within(path, p.workspace) {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err != nil || real != path {
		return ui.Error(fmt.Sprintf("git refers to %s, which does not exist or is a link: a sandbox could make it, and your next git command would run what it says", path),
			"create it, for a submodule with 'git submodule update --init'; or take it out of git's config; or use --workspace cow")
	}
	p.lock(path)
	return nil
}

// firstLine reads the short first line of a file.
func firstLine(path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 8192))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line, nil
}

// openRegular opens a file that may be anything: a named pipe, say, in which a reader
// waits for ever.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return f, nil
}
