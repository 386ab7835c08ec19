package rootfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Repository is what git takes a directory for.
type Repository struct {
	// Own is the git directory of this worktree, with its HEAD and index; empty
	// when there is none.
	Own string
	// Common is the one with the config, hooks and objects: Own, but for a linked
	// worktree.
	Common string
	// Linked says that the directory is a linked worktree of Common's repository.
	Linked bool
}

// ErrStranger is about a .git file that names a directory which does not name it in
// return. Anybody who can write to a worktree can make such a file, about any directory.
var ErrStranger = errors.New("it does not name this worktree in return")

// FindRepository looks at the .git of a directory, which is a path without symbolic links,
// and follows it to where git would go. Both ends of the way must name each other.
func FindRepository(dir string) (Repository, error) {
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	switch {
	case os.IsNotExist(err):
		return Repository{}, nil
	case err != nil:
		return Repository{}, fmt.Errorf("look at %s: %w", git, err)
	case info.IsDir():
		return Repository{Own: git, Common: git}, nil
	case !info.Mode().IsRegular():
		return Repository{}, ui.Error(fmt.Sprintf("%s is neither a directory nor a file", git), "git follows a symbolic link anywhere; replace it")
	}
	to, err := named(git)
	if err != nil {
		return Repository{}, fmt.Errorf("read %s: %w", git, err)
	}
	if to == "" {
		return Repository{}, fmt.Errorf("%s does not name a git directory", git)
	}
	own, err := filepath.EvalSymlinks(to)
	if err != nil {
		return Repository{}, fmt.Errorf("follow %s: %w", git, err)
	}
	if common, ok := worktree(git, own); ok {
		return Repository{Own: own, Common: common, Linked: true}, nil
	}
	if IsGitDir(own) && coreWorktree(own) == dir {
		return Repository{Own: own, Common: own}, nil // a submodule, or made with --separate-git-dir
	}
	return Repository{}, fmt.Errorf("%s names the git directory %s: %w", git, own, ErrStranger)
}

// coreWorktree is the worktree that a git directory names in its config, or, once there are
// worktrees with a config of their own, in that of the first.
func coreWorktree(git string) string {
	worktree, apart := "", false
	read := func(key, value string) {
		switch key {
		case "core.worktree":
			worktree = value
		case "extensions.worktreeconfig":
			apart = value == "true"
		}
	}
	GitConfig(filepath.Join(git, "config"), read)
	if apart {
		GitConfig(filepath.Join(git, "config.worktree"), read)
	}
	if worktree == "" {
		return ""
	}
	if !filepath.IsAbs(worktree) {
		worktree = filepath.Join(git, worktree)
	}
	real, err := filepath.EvalSymlinks(worktree)
	if err != nil {
		return ""
	}
	return real
}

// GitConfig calls f for each key of one file of git's configuration, section.name or
// section.subsection.name, in order. Files that it includes are not read.
func GitConfig(file string, f func(key, value string)) {
	r, err := openRegular(file)
	if err != nil {
		return
	}
	defer r.Close()
	ReadGitConfig(r, f)
}

// ReadGitConfig is GitConfig for a file that is open already.
func ReadGitConfig(r io.Reader, f func(key, value string)) {
	for k, v := range parseGitConfig(io.LimitReader(r, maxConfig)) {
		f(k, v)
	}
}

// A Place is a name that somebody must not be able to write to.
type Place struct {
	Path string
	// File says that git would stumble over a directory in its place, and what a
	// file there has to say so that all stays as it is without one.
	File    bool
	Content string
	// Socket says that the program itself would stumble over a directory.
	Socket bool
}

// References lists the places in a worktree that git takes programs from because its
// configuration or its index refer to them: directories of hooks, included files, and
// submodules. They need not exist.
func (r Repository) References(dir, home string) ([]string, error) {
	if r.Own == "" {
		return nil, nil
	}
	var places []string
	add := func(path string) error {
		if path == dir {
			return ui.Error("core.hooksPath names "+dir+" itself, which cannot be read-only", "set core.hooksPath to another directory")
		}
		if safepath.Within(path, dir) {
			places = append(places, path)
		}
		return nil
	}
	links, err := Submodules(dir, filepath.Join(r.Own, "index"))
	if err != nil {
		return nil, err
	}
	places = slices.DeleteFunc(links, func(path string) bool { return !safepath.Within(path, dir) })
	for _, path := range references(dir, home, r.Common, r.Own) {
		if err := add(path); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// Submodules lists what git finds the submodules of a repository by, and those of submodules: what is
// called .git in each, or its directory. top is where the repository is.
func Submodules(top, index string) (places []string, err error) {
	links, err := Gitlinks(index)
	if err != nil {
		return nil, fmt.Errorf("find the submodules in %s: %w", index, err)
	}
	for _, link := range links {
		at := filepath.Join(top, link)
		if _, err := os.Lstat(filepath.Join(at, ".git")); err != nil {
			places = append(places, at)
			continue
		}
		below, err := Submodules(at, IndexOf(at))
		if err != nil {
			return nil, err
		}
		places = append(append(places, filepath.Join(at, ".git")), below...)
	}
	return places, nil
}

// references lists the directories of hooks and the included files that the configuration names
// for a worktree, the user's own among it.
func references(dir, home, common, own string) (paths []string) {
	for _, file := range []string{
		filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"), "/etc/gitconfig",
		filepath.Join(common, "config"), filepath.Join(own, "config.worktree"),
	} {
		c := readGitConfig(file)
		for _, hooks := range c.hooks {
			if hooks = expandHome(hooks); !filepath.IsAbs(hooks) {
				hooks = filepath.Join(dir, hooks)
			}
			c.files = append(c.files, filepath.Clean(hooks))
		}
		paths = append(paths, c.files...)
	}
	return paths
}
