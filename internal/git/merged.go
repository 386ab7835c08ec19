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
	"time"
)

// A branch is merged if its commits are on another one. It also is if merging it would have
// changed nothing there at some commit: after a squash, a rebase, or cherry-picks. When in
// doubt, it is not: the caller is about to remove it.

// Bounds of that question.
const (
	maxTargets     = 8  // branches
	maxCandidates  = 32 // commits of each
	patienceMerged = 20 * time.Second
)

// merges tells what of a sandbox's is merged in the user's repository.
type merges struct {
	*State
	git host
}

func (b *Bridge) merges() *merges { return &merges{&b.State, b.refs()} }

// unmerged counts the commits of the sandbox's branches that are on no other branch, tag or
// remote, neither themselves nor by what they change.
func (m *merges) unmerged(ctx context.Context) (int, error) {
	ours, others, err := m.tips(ctx)
	if err != nil {
		return 0, err
	}
	n, err := m.beyond(ctx, ours, others)
	if err != nil || n == 0 {
		return n, err
	}
	// Commits of another sandbox's are not looked for by what they change.
	left := m.without(ctx, ours, "refs/heads/", "refs/remotes/")
	for _, id := range ours {
		if !slices.Contains(left, id) {
			others = append(others, id)
		}
	}
	return m.beyond(ctx, left, others)
}

// tips are the commits that the sandbox's refs point to, and those that others do. They are
// ids: whoever removes another sandbox meanwhile removes refs, and no objects.
func (m *merges) tips(ctx context.Context) (ours, others []string, err error) {
	refs, err := m.git.list(ctx, "refs/")
	for _, r := range refs {
		if _, ok := m.inside(r.Name); ok || strings.HasPrefix(r.Name, m.incoming()) {
			ours = append(ours, r.ID)
		} else if !strings.HasPrefix(r.Name, "refs/coffer/") {
			others = append(others, r.ID)
		}
	}
	if m.Base != "" {
		others = append(others, m.Base)
	}
	slices.Sort(ours)
	return slices.Compact(ours), others, err
}

// beyond counts the commits that are in ours and not in others.
func (m *merges) beyond(ctx context.Context, ours, others []string) (count int, err error) {
	if len(ours) == 0 {
		return 0, nil
	}
	args := strings.Join(ours, "\n") + "\n"
	for _, id := range others {
		args += "^" + id + "\n"
	}
	n, err := m.git.run(ctx, args, "rev-list", "--count", "--stdin")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(n, &count)
	return count, err
}

// A judge merges commits to see what they change. It is git in a repository of its own, which
// has only the host's objects: there is no setting and no attribute, whoever's, by which a
// merge would start a program, and what git writes goes with it.
type judge struct {
	git host
	dir string
}

// judge makes one. The caller closes it.
func (m *merges) judge() (j *judge, err error) {
	objects := filepath.Join(m.Common, "objects")
	j = &judge{}
	// By this name git knows it for what it is, if we are killed.
	if j.dir, err = os.MkdirTemp(objects, "tmp_objdir-coffer-"); err != nil {
		return nil, err
	}
	err = writeFiles(j.dir, map[string]string{"HEAD": "ref: refs/heads/main\n", "config": bareConfig(m.Format)})
	if err == nil {
		err = os.Mkdir(filepath.Join(j.dir, "objects"), 0o755)
	}
	if err == nil {
		err = copyIn(m.Common, "shallow", filepath.Join(j.dir, "shallow"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.close()
		return nil, err
	}
	j.git = host{
		dir: "/", where: []string{"--git-dir=" + j.dir},
		config: []string{"core.attributesFile=/dev/null"},
		env: []string{
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteObjects(objects),
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=coffer", "GIT_AUTHOR_EMAIL=coffer", "GIT_COMMITTER_NAME=coffer", "GIT_COMMITTER_EMAIL=coffer",
		},
	}
	return j, nil
}

func (j *judge) close() { os.RemoveAll(j.dir) }

// taken reports whether all that a commit brought is in another one: whether, on the way
// there, merging it into some commit would have changed nothing. What changed there since does
// not count.
func (j *judge) taken(ctx context.Context, id, other string) bool {
	base, err := j.git.text(ctx, "merge-base", other, id)
	if err != nil {
		return false
	}
	if heavy, err := j.git.heavy(ctx, id); err != nil || heavy {
		return false
	}
	paths, err := j.git.run(ctx, "", "diff-tree", "-r", "-z", "--name-only", "--no-renames", base, id)
	if err != nil || paths == "" {
		return false // what changes nothing is nowhere else
	}
	names := strings.Split(strings.TrimSuffix(paths, "\x00"), "\x00")
	// The newest first; other itself is the one at which the merge is among other changes.
	args := []string{"--literal-pathspecs", "log", "--no-show-signature", "--format=%H %T", fmt.Sprintf("--max-count=%d", maxCandidates)}
	for _, span := range [][]string{{"--no-walk", other, "--"}, append([]string{base + ".." + other, "--"}, names[:min(len(names), maxCandidates)]...)} {
		out, err := j.git.run(ctx, "", append(args, span...)...)
		if err != nil {
			return false
		}
		for line := range strings.Lines(out) {
			commit, tree, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			merged, err := j.git.text(ctx, "merge-tree", "--write-tree", "--no-messages", commit, id)
			if err == nil && merged == tree {
				return true
			}
		}
	}
	return false
}

// takenBy reports whether all that a commit brought is in one of others that have parted from
// it.
func (m *merges) takenBy(ctx context.Context, id string, others []string) bool {
	if len(others) == 0 {
		return false
	}
	j, err := m.judge()
	if err != nil {
		return false
	}
	defer j.close()
	return slices.ContainsFunc(others, func(other string) bool { return ctx.Err() == nil && j.taken(ctx, id, other) })
}

// without are those of some commits that are neither on one of the user's branches below
// some prefixes nor have a tag, nor are on such a branch by what they change.
func (m *merges) without(ctx context.Context, ids []string, prefixes ...string) (left []string) {
	like, cancel := context.WithTimeout(ctx, patienceMerged)
	defer cancel()
	for _, id := range ids {
		on := m.usersTips(ctx, append([]string{"--contains=" + id, "refs/tags/"}, prefixes...)...)
		if len(on) == 0 && !m.takenBy(like, id, m.targets(like, id, prefixes)) {
			left = append(left, id)
		}
	}
	return left
}

// targets are the user's branches to which something was committed that a commit does not
// have, the latest first.
func (m *merges) targets(ctx context.Context, id string, prefixes []string) []string {
	all := m.usersTips(ctx, append([]string{"--sort=-committerdate", "--no-merged=" + id}, prefixes...)...)
	return all[:min(len(all), maxTargets)]
}

// usersTips are the commits of those of the user's refs that git for-each-ref finds.
func (m *merges) usersTips(ctx context.Context, args ...string) (tips []string) {
	out, err := m.git.run(ctx, "", append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, args...)...)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(out) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if m.users(ref) && !slices.Contains(tips, id) {
			tips = append(tips, id)
		}
	}
	return tips
}
