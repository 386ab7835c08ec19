package rootfs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// protectGit keeps a workspace's git directory as it is: hooks and config in it run
// on the host when the user next types git. Making .git itself a mount point means
// that it can be neither written, renamed nor removed from inside.
func protectGit(workspace string) ([]Step, error) {
	git := filepath.Join(workspace, ".git")
	info, err := os.Lstat(git)
	switch {
	case os.IsNotExist(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", git, err)
	case info.Mode()&os.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link, which cannot be protected", git)
	case info.IsDir():
		return []Step{{Do: Lock, Target: git}}, nil
	case info.Mode().IsRegular():
		steps := []Step{{Do: Lock, Target: git}}
		if common, ok := worktree(git); ok && !Within(common, workspace) {
			steps = append(steps, Step{Do: Bind, Source: common, Target: common, ReadOnly: true, Mine: true})
		}
		return steps, nil
	}
	return nil, fmt.Errorf("%s is neither a directory nor a file", git)
}

// worktree follows a .git file to the git directory of the main repository, if that
// one agrees: the file could name any directory, but only a repository that this
// worktree really belongs to names the file in return.
func worktree(file string) (common string, ok bool) {
	line, err := firstLine(file)
	if err != nil {
		return "", false
	}
	dir, ok := strings.CutPrefix(line, "gitdir: ")
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
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
