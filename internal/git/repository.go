package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Repository is the user's, as found from a directory in it.
type Repository struct {
	Common string // the git directory that all its worktrees share
	Dir    string // the git directory of the worktree we are in
	Top    string // that worktree; empty for a bare repository
	Prefix string // where in it we are, relative
	Format string // of object names: sha1 or sha256

	shallow bool
	bare    bool
	odd     bool              // there are refs that only git can read
	config  map[string]string // the last value of each key
	all     []setting         // of git's own reading
}

// ErrNoRepository says that a directory is in none.
var ErrNoRepository = errors.New("not in a git repository")

// ErrNoCommit is about a repository in which nothing was committed yet.
var ErrNoCommit = errors.New("the repository has no commit yet, of which a worktree could be made")

// Find looks for the repository that a directory is in.
func Find(ctx context.Context, dir string) (*Repository, error) {
	r, err := findAtOnce(ctx, dir)
	if err != nil {
		if r, err = findStepwise(ctx, dir); err != nil {
			return nil, err
		}
	}
	if r.Prefix, err = filepath.Rel(r.Top, dir); err != nil || strings.HasPrefix(r.Prefix, "..") {
		r.Prefix = "."
	}
	if r.Common, err = filepath.EvalSymlinks(r.Common); err != nil {
		return nil, err
	}
	return r, r.readConfig(ctx)
}

// findAtOnce asks git one question for all there is to know. It has an answer where there
// is a working tree, and no path with a line break in it.
func findAtOnce(ctx context.Context, dir string) (*Repository, error) {
	if rootfs.IsGitDir(dir) {
		return nil, errNotPlain
	}
	out, err := host{dir: dir}.text(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir", "--absolute-git-dir", "--show-toplevel",
		"--is-bare-repository", "--is-shallow-repository", "--show-object-format", "--is-inside-work-tree")
	if err != nil {
		return nil, err
	}
	line := strings.Split(out, "\n")
	if len(line) != 7 || line[6] != "true" || slices.ContainsFunc(line[:3], func(p string) bool { return !filepath.IsAbs(p) }) {
		return nil, errNotPlain
	}
	return &Repository{Common: line[0], Dir: line[1], Top: line[2], bare: line[3] == "true", shallow: line[4] == "true", Format: line[5]}, nil
}

// findStepwise asks for each path alone, as they may contain line breaks.
func findStepwise(ctx context.Context, dir string) (*Repository, error) {
	h := host{dir: dir}
	r := &Repository{}
	var err error
	if rootfs.IsGitDir(dir) && mine(dir) {
		h.where = []string{"--git-dir=" + dir} // a bare one, which git does not look for
	}
	if r.Common, err = h.text(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir"); err != nil {
		if code(err) == 128 && strings.Contains(err.Error(), "not a git repository") {
			return nil, ErrNoRepository
		}
		return nil, missing(err)
	}
	facts, err := h.run(ctx, "", "rev-parse", "--is-bare-repository", "--is-shallow-repository", "--show-object-format", "--is-inside-work-tree", "--is-inside-git-dir")
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(facts)
	if len(lines) != 5 {
		return nil, fmt.Errorf("git rev-parse: unexpected answer %q", facts)
	}
	r.bare, r.shallow, r.Format = lines[0] == "true", lines[1] == "true", lines[2]
	r.Dir = r.Common
	if lines[3] == "true" {
		if r.Top, err = h.text(ctx, "rev-parse", "--show-toplevel"); err == nil {
			r.Dir, err = h.text(ctx, "rev-parse", "--absolute-git-dir")
		}
		return r, err
	}
	if lines[4] == "true" && !r.bare {
		return nil, ui.Error(fmt.Sprintf("%s is inside a git directory", dir), "change to the files of the repository")
	}
	return r, nil
}

// readConfig reads what git's configuration says here, from all its files.
func (r *Repository) readConfig(ctx context.Context) error {
	all, err := r.git().settings(ctx)
	if err != nil {
		return err
	}
	r.config, r.all = map[string]string{}, all
	for _, s := range all {
		r.know(s)
	}
	return nil
}

// know notes a setting. Which file of the host to show inside, the repository does not say.
func (r *Repository) know(s setting) {
	if !s.own || s.key != "core.excludesfile" {
		r.config[s.key] = s.value
	}
}

// git runs on the repository, without looking at any working tree.
func (r *Repository) git() host {
	return host{dir: "/", where: []string{"--git-dir=" + r.Common}}
}

// here runs as if the user typed it where he is: HEAD is that of his worktree.
func (r *Repository) here() host {
	return host{dir: "/", where: []string{"--git-dir=" + r.Dir}}
}

// objects lists the directories in which the repository's objects are, its own first.
// Alternates can have alternates; git follows five.
func (r *Repository) objects() ([]string, error) {
	first, err := filepath.EvalSymlinks(filepath.Join(r.Common, "objects"))
	if err != nil {
		return nil, fmt.Errorf("find the objects of the repository: %w", err)
	}
	all, seen := []string{first}, map[string]bool{first: true}
	for i := 0; i < len(all) && len(all) < 32; i++ {
		if all[i] != filepath.Join(r.Common, "objects") && !holdsObjects(all[i]) {
			return nil, ui.Error(fmt.Sprintf("the repository borrows objects from %s, which is in no repository", all[i]), "see objects/info/alternates in "+r.Common)
		}
		b, err := readIn(all[i], "info/alternates", maxInfo)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			if line[0] == '"' {
				return nil, ui.Error("an alternate of the repository has a quoted name, which is not supported", "use --workspace direct")
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(all[i], line)
			}
			dir, err := filepath.EvalSymlinks(line)
			if err == nil && !seen[dir] {
				seen[dir] = true
				all = append(all, dir)
			}
		}
	}
	return all, nil
}

// suits says why no worktree sandbox can be made of the repository.
func (r *Repository) suits() error {
	const direct = "use --workspace direct"
	switch {
	case r.Format != "sha1" && r.Format != "sha256":
		return ui.Error(fmt.Sprintf("the repository names its objects by %q, which is not supported", r.Format), direct)
	}
	return nil
}

// partial says whether objects are missing that git gets from a remote when it needs them.
func (r *Repository) partial() bool {
	for key, value := range r.config {
		if strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") && value != "false" {
			return true
		}
	}
	return r.config["extensions.partialclone"] != ""
}

// complete says what is missing of a commit's files in a partial clone. What is missing of
// others is missed only by who looks at them: git inside cannot fetch it.
func (r *Repository) complete(ctx context.Context, commit string) error {
	if !r.partial() {
		return nil
	}
	out, err := r.git().run(ctx, "", "rev-list", "--objects", "--no-walk", "--missing=print", commit)
	if err != nil {
		return err
	}
	if n := strings.Count("\n"+out, "\n?"); n > 0 {
		return ui.Error(fmt.Sprintf("the repository is a partial clone in which objects of the commit %.12s are missing (%d), and a sandbox cannot fetch them", commit, n),
			fmt.Sprintf("check that commit out once, or have git fetch them with 'git archive %.12s >/dev/null'", commit))
	}
	return nil
}

// commit finds the commit that a word means; none is HEAD.
func (r *Repository) commit(ctx context.Context, word string) (string, error) {
	if word == "" {
		if id, err := r.plainHead(); err == nil && id != "" && !isDir(filepath.Join(r.Common, "reftable")) {
			return id, nil
		}
		id, err := r.here().text(ctx, "rev-parse", "--verify", "-q", "HEAD^{commit}")
		if err != nil {
			return "", ui.Hint(ErrNoCommit, "make a first commit")
		}
		return id, nil
	}
	id, err := r.here().text(ctx, "rev-parse", "--verify", "-q", "--end-of-options", word+"^{commit}")
	if err != nil {
		return "", ui.Error(fmt.Sprintf("there is no commit %q to start from", word), "see 'git branch' and 'git log'")
	}
	return id, nil
}

// OwnSetting is what the user's own git config says, whatever repository one is in.
func OwnSetting(key string) (string, bool) {
	value, err := host{dir: "/"}.text(context.Background(), "config", "--get", key)
	return value, err == nil
}
