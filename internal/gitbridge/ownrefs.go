package gitbridge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// readPlain is read without asking git, where the refs are plain files.
func (s *session) readPlain() error {
	if isDir(filepath.Join(s.Common, "reftable")) {
		return errNotPlain
	}
	// A ref that is packed meanwhile is in one of the two places, if they are read in this order.
	loose, all := map[string]ref{}, map[string]ref{}
	for _, dir := range []string{strings.TrimSuffix(s.own(), "/"), "refs/heads/coffer"} {
		if err := looseRefs(s.Common, dir, loose); err != nil {
			return err
		}
	}
	if path := filepath.Join(s.Common, filepath.FromSlash(s.branchRef())); isFile(path) {
		loose[s.branchRef()] = ref{name: s.branchRef(), id: readID(path)}
	}
	if err := packedRefs(s.Common, all, s.own(), "refs/heads/coffer/", s.branchRef()); err != nil {
		return err
	}
	for name, r := range loose {
		all[name] = r
	}
	trees, err := checkouts(s.Common, s.Tree)
	if err != nil {
		return err
	}
	s.refs = map[string]tip{}
	for name, r := range all {
		if _, ours := s.inside(name); !ours && !strings.HasPrefix(name, s.own()) {
			continue
		}
		if r.id == "" {
			return errNotPlain
		}
		s.refs[name] = tip{id: r.id, tree: trees[name]}
	}
	return nil
}

// checkouts says which branches are checked out, and in which worktree. Of several it is not
// the one that is named.
func checkouts(common, last string) (trees map[string]string, err error) {
	trees = map[string]string{}
	note := func(admin, tree string) error {
		line, err := firstLine(filepath.Join(admin, "HEAD"))
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(line, "ref: "); ok && (trees[name] == "" || trees[name] == last) {
			trees[name] = tree
		}
		return nil
	}
	if err := note(common, strings.TrimSuffix(common, "/.git")); err != nil {
		return nil, err
	}
	admins, err := os.ReadDir(filepath.Join(common, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range admins {
		admin := filepath.Join(common, "worktrees", d.Name())
		tree, err := firstLine(filepath.Join(admin, "gitdir"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being made, or being removed
		}
		if !filepath.IsAbs(tree) {
			tree = filepath.Join(admin, tree)
		}
		if err == nil {
			err = note(admin, strings.TrimSuffix(tree, "/.git"))
		}
		if err != nil {
			return nil, err
		}
	}
	return trees, nil
}
