package git

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// A gitlink is an entry of a commit that is a submodule. Once it is in the user's index, git
// status looks into the directory of that name, however deep, and if there is a repository runs
// what its config says. What lies in a directory of the user's is a sandbox's to write, now or
// later. So what counts is the gitlink, and not what is there: commits with one that the host's
// HEAD and index do not have stay inside. Those that they have are covered while a sandbox runs.

// unfit says why a commit must not get a branch, or a name, of the user's; or nothing.
func (b *Bridge) unfit(ctx context.Context, commit string) (string, error) {
	h := b.refs()
	if heavy, err := h.heavy(ctx, commit); err != nil {
		return "", err
	} else if heavy {
		return fmt.Sprintf("it has too many files (%d at most); take them out of the commit, inside", maxPaths), nil
	}
	links, err := h.gitlinks(ctx, commit, (&Repository{Dir: b.Admin}).Head(ctx))
	if err != nil || len(links) == 0 {
		return "", err
	}
	known, err := rootfs.Gitlinks(filepath.Join(b.Admin, "index"))
	links = slices.DeleteFunc(links, func(path string) bool { return slices.Contains(known, path) })
	if err != nil || len(links) == 0 {
		return "", err
	}
	return fmt.Sprintf("it records what is in %s as a submodule, into which git would look and run what its config says; add submodules outside, and take it out of the commits, inside", ui.Few(links)), nil
}

// gitlinks lists the gitlinks of a commit that another one, or nothing, does not have, and those of
// the commits before it that no branch, tag or remote of the user's has: a rebase goes through all.
func (h host) gitlinks(ctx context.Context, commit, head string) (links []string, err error) {
	if head == "" {
		if head, err = h.text(ctx, "hash-object", "-t", "tree", "--stdin"); err != nil { // the empty one
			return nil, err
		}
	}
	raw := []string{"-r", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--diff-filter=AMT", "--ignore-submodules=none", "-z"}
	for _, args := range [][]string{
		slices.Concat([]string{"diff-tree"}, raw, []string{head, commit}),
		slices.Concat([]string{"-c", "log.diffMerges=separate", "log", "--no-show-signature", "--format=", "-m", "--root"}, raw,
			[]string{commit, "--not", "--exclude=coffer/*", "--branches", "--remotes", "--tags", "--"}),
	} {
		out, err := h.run(ctx, "", args...)
		if err != nil {
			return nil, fmt.Errorf("look for submodules in %.12s: %w", commit, err)
		}
		fields := strings.Split(out, "\x00")
		for i := 0; i+1 < len(fields); i++ {
			if line := strings.TrimLeft(fields[i], "\n"); strings.HasPrefix(line, ":") { // :MODE MODE ID ID STATUS, then the path
				if i++; strings.Contains(line, " 160000 ") {
					links = append(links, fields[i])
				}
			}
		}
	}
	slices.Sort(links)
	return slices.Compact(links), nil
}

// submodules gives the sandbox a directory of its own for each submodule in an index. Outside it
// stays as it is, so that what the user types about submodules there finds nothing of the sandbox's.
func submodules(index, dir string) (mounts []rootfs.Mount, err error) {
	links, err := rootfs.Gitlinks(index)
	if err != nil {
		return nil, fmt.Errorf("find the submodules of the worktree: %w", err)
	}
	for _, path := range links {
		own := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(path))))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return nil, err
		}
		mounts = append(mounts, rootfs.Mount{Source: own, Target: path})
	}
	return mounts, nil
}
