package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

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

	config map[string]string // the last value of each key
}

// ErrNoRepository is about a directory that is in none.
var ErrNoRepository = errors.New("not in a git repository")

// ErrNoCommit is about a repository in which nothing was committed yet.
var ErrNoCommit = errors.New("the repository has no commit yet, of which a worktree could be made")

// Find looks for the repository that a directory is in.
func Find(ctx context.Context, dir string) (*Repository, error) {
	h := host{dir: dir}
	r := &Repository{}
	var err error
	if rootfs.IsGitDir(dir) && mine(dir) {
		h.where = []string{"--git-dir=" + dir} // a bare one, which git does not look for
	}
	out, err := h.text(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir",
		"--is-bare-repository", "--show-object-format", "--is-inside-work-tree", "--is-inside-git-dir")
	if err != nil {
		if code(err) == 128 && strings.Contains(err.Error(), "not a git repository") {
			return nil, ErrNoRepository
		}
		return nil, missing(err)
	}
	lines := strings.Split(out, "\n")
	if len(lines) < 5 {
		return nil, fmt.Errorf("git rev-parse: unexpected answer %q", out)
	}
	path, facts := lines[:len(lines)-4], lines[len(lines)-4:]
	r.Common, r.Format = strings.Join(path, "\n"), facts[1] // a path may contain line breaks
	if r.Common, err = filepath.EvalSymlinks(r.Common); err != nil {
		return nil, err
	}
	r.Dir = r.Common
	switch {
	case facts[2] == "true":
		if r.Top, err = h.text(ctx, "rev-parse", "--show-toplevel"); err == nil {
			r.Dir, err = h.text(ctx, "rev-parse", "--absolute-git-dir")
		}
		if err != nil {
			return nil, err
		}
	case facts[3] == "true" && facts[0] != "true":
		return nil, ui.Error(fmt.Sprintf("%s is inside a git directory", dir), "change to the files of the repository")
	}
	if r.Prefix, err = filepath.Rel(r.Top, dir); err != nil || strings.HasPrefix(r.Prefix, "..") {
		r.Prefix = "."
	}
	return r, r.readConfig(ctx)
}

// mine reports whether a directory is the caller's: git uses nobody else's repositories.
func mine(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// readConfig reads what git's configuration says here, from all its files.
func (r *Repository) readConfig(ctx context.Context) error {
	all, err := r.git().settings(ctx)
	if err != nil {
		return err
	}
	r.config = map[string]string{}
	for _, s := range all {
		// The repository does not say which file of the host to show inside.
		if !s.own || s.key != "core.excludesfile" {
			r.config[s.key] = s.value
		}
	}
	return nil
}

// git runs on the repository, without a working tree.
func (r *Repository) git() host {
	return host{dir: "/", where: []string{"--git-dir=" + r.Common}}
}

// here runs as if the user typed it where he is: HEAD is that of his worktree.
func (r *Repository) here() host {
	return host{dir: "/", where: []string{"--git-dir=" + r.Dir}}
}

// objects lists the directories of the repository's objects, its own first. Alternates can
// have alternates; git follows five.
func (r *Repository) objects() ([]string, error) {
	own := filepath.Join(r.Common, "objects")
	first, err := filepath.EvalSymlinks(own)
	if err != nil {
		return nil, fmt.Errorf("find the objects of the repository: %w", err)
	}
	all := []string{first}
	for i := 0; i < len(all) && len(all) < 32; i++ {
		// Any other directory could be named as well.
		if all[i] != own && (filepath.Base(all[i]) != "objects" || !rootfs.IsGitDir(filepath.Dir(all[i]))) {
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
			if dir, err := filepath.EvalSymlinks(line); err == nil && !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all, nil
}

// partial reports whether git gets missing objects from a remote when it needs them.
func (r *Repository) partial() bool {
	for key, value := range r.config {
		if strings.HasPrefix(key, "remote.") && strings.HasSuffix(key, ".promisor") && value != "false" {
			return true
		}
	}
	return r.config["extensions.partialclone"] != ""
}

// complete is an error if files of a commit are missing in a partial clone. Git inside
// cannot fetch what is missing of others, either.
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

// Head is the commit that is checked out where the user is, or "".
func (r *Repository) Head(ctx context.Context) string {
	id, _ := r.here().text(ctx, "rev-parse", "--verify", "-q", "HEAD^{commit}")
	return id
}

// Base is the commit that a worktree is to start from; without a word, HEAD. It fails if no
// worktree can be made of it on the branch, or "" for one by the sandbox's name.
func (r *Repository) Base(ctx context.Context, word, branch string) (base string, err error) {
	if r.Format != "sha1" && r.Format != "sha256" {
		return "", ui.Error(fmt.Sprintf("the repository names its objects by %q, which is not supported", r.Format), "use --workspace direct")
	}
	if word == "" {
		if base = r.Head(ctx); base == "" {
			return "", ui.Hint(ErrNoCommit, "make a first commit")
		}
	} else if base, err = r.here().text(ctx, "rev-parse", "--verify", "-q", "--end-of-options", word+"^{commit}"); err != nil {
		return "", ui.Error(fmt.Sprintf("there is no commit %q to start from", word), "see 'git branch' and 'git log'")
	}
	if err := r.complete(ctx, base); err != nil || branch == "" {
		return base, err
	}
	if _, err := r.git().text(ctx, "check-ref-format", "refs/heads/"+branch); err != nil || branch[0] == '-' {
		return "", ui.Error(fmt.Sprintf("%q cannot be the name of a branch", branch), "see 'git help check-ref-format'")
	}
	if strings.HasPrefix(branch, "coffer/") && strings.Contains(branch, "@") {
		return "", ui.Error(fmt.Sprintf("%q cannot be the branch of a sandbox: names such as coffer/…@… are for the branches made inside", branch), "choose another name")
	}
	return base, nil
}

// OwnSetting is what the user's own git config says, whatever repository one is in.
func OwnSetting(key string) (string, bool) {
	value, err := host{dir: "/"}.text(context.Background(), "config", "--get", key)
	return value, err == nil
}
