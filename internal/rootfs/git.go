package rootfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
)

// Git runs programs that its directory names: hooks, and whatever config says. They
// would run on the host, as the user, the next time the user types git in the
// workspace. So everything of the workspace that git takes such names from is made
// read-only, and a mount point, and so is every directory above it: what is a mount
// point can be neither renamed nor removed.

// protectGit protects the repository in a workspace.
func protectGit(workspace, home string) ([]Step, error) {
	git := filepath.Join(workspace, ".git")
	info, err := os.Lstat(git)
	switch {
	case os.IsNotExist(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", git, err)
	case info.Mode()&os.ModeSymlink != 0:
		return nil, hint.New(fmt.Sprintf("%s is a symbolic link, which cannot be protected", git), "use --workspace cow")
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a directory nor a file", git)
	}
	p := protection{workspace: workspace, seen: map[string]bool{}}
	p.lock(git)
	config := git
	if !info.IsDir() {
		config = p.gitFile(git)
	}
	p.submodules(filepath.Join(config, "modules"))
	err = p.hooks(
		filepath.Join(config, "config"), filepath.Join(config, "config.worktree"),
		filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"), "/etc/gitconfig")
	return p.steps, err
}

// protection collects the steps that protect a repository.
type protection struct {
	workspace string
	steps     []Step
	seen      map[string]bool
}

// lock makes a path of the workspace read-only and pins what is above it.
func (p *protection) lock(path string) {
	rel, err := filepath.Rel(p.workspace, path)
	if err != nil || p.seen[path] {
		return
	}
	above := p.workspace
	parts := strings.Split(rel, "/")
	for _, name := range parts[:len(parts)-1] {
		above = filepath.Join(above, name)
		if !p.seen[above] {
			p.seen[above] = true
			p.steps = append(p.steps, Step{Do: Pin, Target: above})
		}
	}
	p.seen[path] = true
	p.steps = append(p.steps, Step{Do: Lock, Target: path})
}

// gitFile follows a .git file. A git directory inside the workspace is protected; one
// outside is shown read-only if it agrees that this is a worktree of its own: the file
// could name any directory. It returns where the repository's config is.
func (p *protection) gitFile(file string) (config string) {
	line, _ := firstLine(file)
	dir, ok := strings.CutPrefix(line, "gitdir: ")
	if !ok {
		return ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	if Within(dir, p.workspace) {
		p.lock(dir)
		return dir
	}
	common, ok := worktree(file, dir)
	if ok && !Within(common, p.workspace) {
		p.steps = append(p.steps, Step{Do: Bind, Source: common, Target: common, ReadOnly: true, Mine: true})
	}
	return common
}

// worktree returns the git directory of the main repository, if the worktree's own
// directory below it names the .git file in return.
func worktree(file, dir string) (common string, ok bool) {
	back, err := firstLine(filepath.Join(dir, "gitdir"))
	if err != nil || filepath.Clean(back) != file {
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

// submodules protects the .git files of submodules, by which a git command in the
// repository finds their directories.
func (p *protection) submodules(modules string) {
	filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && (d.Name() == "objects" || d.Name() == "refs" || d.Name() == "logs" || d.Name() == "hooks"):
			return fs.SkipDir
		case d.IsDir() || d.Name() != "config":
			return nil
		}
		for _, tree := range gitConfig(path, "core.worktree") {
			if !filepath.IsAbs(tree) {
				tree = filepath.Join(filepath.Dir(path), tree)
			}
			git := filepath.Join(tree, ".git")
			if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() && Within(git, p.workspace) {
				p.lock(git)
			}
		}
		return nil
	})
}

// hooks protects a directory of hooks outside .git.
func (p *protection) hooks(files ...string) error {
	for _, file := range files {
		for _, dir := range gitConfig(file, "core.hookspath") {
			if dir = expandHome(dir); !filepath.IsAbs(dir) {
				dir = filepath.Join(p.workspace, dir)
			}
			if dir = filepath.Clean(dir); dir == p.workspace {
				return hint.New("core.hooksPath is the whole workspace, which cannot be read-only", "use --workspace cow")
			}
			if !Within(dir, p.workspace) || p.seen[dir] {
				continue
			}
			real, err := filepath.EvalSymlinks(dir)
			if err != nil || real != dir {
				return hint.New(fmt.Sprintf("git's hooks are to be in %s, which is not there as a directory: a sandbox could make it, and your next git command would run what is in it", dir),
					"make the directory, unset core.hooksPath, or use --workspace cow")
			}
			p.lock(dir)
		}
	}
	return nil
}

// firstLine reads the short first line of a file.
func firstLine(path string) (string, error) {
	f, err := os.Open(path)
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
