package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Carrying says what of the user's checkout a new worktree gets besides the commit.
type Carrying struct {
	// Work brings along what is not committed: changed files, and new ones that git does
	// not ignore. Nothing is staged there.
	Work bool
	// Named are files to copy although git ignores them.
	Named []string
	// Masked, if set, says which files are secrets. They stay where they are, unless
	// they are named.
	Masked func(path string) bool
}

// Carry brings files from the checkout that the sandbox was made in to its worktree,
// before anybody inside can see it. It returns what was left behind.
func (b *Bridge) Carry(ctx context.Context, r *Repository, c Carrying) (left []string, err error) {
	if r.Top == "" || !c.Work && len(c.Named) == 0 {
		return nil, nil
	}
	from, err := os.OpenRoot(r.Top)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := os.OpenRoot(b.Tree)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	var paths []string
	if c.Work {
		if paths, err = r.Uncommitted(ctx, b.Base); err != nil {
			return nil, err
		}
	}
	for _, p := range c.Named {
		if _, err := from.Lstat(p); err != nil {
			continue // not everybody has each of them
		}
		if err := carry(from, to, p); err != nil {
			return nil, fmt.Errorf("copy %s: %w", p, err)
		}
	}
	for _, p := range paths {
		if strings.HasSuffix(p, "/") || c.Masked != nil && c.Masked(p) {
			left = append(left, p) // a repository of its own, or a secret
			continue
		}
		if err := carry(from, to, p); err != nil {
			return left, fmt.Errorf("bring %s along: %w", p, err)
		}
	}
	return left, nil
}

// Uncommitted lists the files that are not as in a commit, and those that git does not know
// and does not ignore.
func (r *Repository) Uncommitted(ctx context.Context, base string) ([]string, error) {
	h := host{dir: r.Top, where: []string{"--git-dir=" + r.Dir, "--work-tree=" + r.Top}, mind: true}
	changed, err := h.run(ctx, "", "diff", "--no-ext-diff", "--no-textconv", "--name-only", "-z", "--no-renames", "--ignore-submodules=all", base)
	if err != nil {
		return nil, err
	}
	unknown, err := h.run(ctx, "", "ls-files", "-z", "--others", "--exclude-standard", "--full-name")
	if err != nil {
		return nil, err
	}
	var paths []string
	for p := range strings.SplitSeq(changed+unknown, "\x00") {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

// carry makes a path the same in another tree: a file, a link, or nothing.
func carry(from, to *os.Root, path string) error {
	info, err := from.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = to.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	if err := to.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(path)
		if err != nil {
			return err
		}
		if err := to.RemoveAll(path); err != nil {
			return err
		}
		return to.Symlink(target, path)
	case !info.Mode().IsRegular():
		return nil // a pipe, or a directory of which git told the files
	}
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	// What is there may be a link, which is not written through.
	if old, err := to.Lstat(path); err == nil && !old.Mode().IsRegular() {
		if err := to.RemoveAll(path); err != nil {
			return err
		}
	}
	out, err := to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close())
}
