package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// A branch is merged if its commits are on another one. It also is if merging it would have changed
// nothing there at some commit: after a squash, a rebase, or cherry-picks. Where that cannot be
// told, it is not: the caller is about to remove it.

// Bounds of that question: how many branches are looked at, and for how long.
const (
	maxTargets     = 8
	patienceMerged = 20 * time.Second
)

// unmerged are those of some commits that are neither on one of the user's branches below some
// prefixes nor have a tag of his, nor are on such a branch by what they change.
func (b *Bridge) unmerged(ctx context.Context, ids []string, prefixes ...string) (left []string) {
	like, cancel := context.WithTimeout(ctx, patienceMerged)
	defer cancel()
	for _, id := range ids {
		if !b.reachable(ctx, id, prefixes) && !b.takenBy(like, id, b.targets(like, id, prefixes)) {
			left = append(left, id)
		}
	}
	return left
}

// reachable says whether a commit is on one of the user's branches, or has a tag of his.
func (b *Bridge) reachable(ctx context.Context, id string, prefixes []string) bool {
	out, err := b.refs().run(ctx, "", append([]string{"for-each-ref", "--format=%(refname)", "--contains=" + id, "refs/tags/"}, prefixes...)...)
	if err != nil {
		return false
	}
	for name := range strings.Lines(out) {
		if b.isUsers(strings.TrimSuffix(name, "\n")) {
			return true
		}
	}
	return false
}

// isUsers says that a branch or tag is no sandbox's: this one's may have any name.
func (b *Bridge) isUsers(ref string) bool {
	_, ours := b.inside(ref)
	return !ours && !strings.HasPrefix(ref, "refs/heads/coffer/")
}

// targets are the user's branches to which something was committed that a commit has not, the
// last ones first, and not before the sandbox was made.
func (b *Bridge) targets(ctx context.Context, id string, prefixes []string) (all []string) {
	args := append([]string{"for-each-ref", "--sort=-committerdate", "--no-merged=" + id, "--format=%(committerdate:unix) %(objectname) %(refname)"}, prefixes...)
	out, err := b.refs().run(ctx, "", args...)
	if err != nil || out == "" {
		return nil
	}
	var made int64
	if b.Base != "" {
		said, _ := b.refs().text(ctx, "log", "--no-walk", "--format=%ct", "--no-show-signature", b.Base, "--")
		if made, err = strconv.ParseInt(said, 10, 64); err != nil {
			return nil
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 3 || !b.isUsers(f[2]) || seen[f[1]] {
			continue
		}
		seen[f[1]] = true
		if at, err := strconv.ParseInt(f[0], 10, 64); err == nil && at >= made && len(all) < maxTargets {
			all = append(all, f[1])
		}
	}
	return all
}

// takenBy says whether all that a commit brought is in one of others that have parted from it.
func (b *Bridge) takenBy(ctx context.Context, id string, others []string) bool {
	if len(others) == 0 {
		return false
	}
	j, err := b.judge(id)
	if err != nil {
		return false
	}
	defer j.close()
	for _, other := range others {
		if ctx.Err() != nil {
			return false
		}
		if j.taken(ctx, id, other) {
			return true
		}
	}
	return false
}

// A judge merges commits to see what they change. It is git in a repository of its own, which
// has nothing but the host's objects: no setting and no attribute is there, whoever's, by
// which a merge would start a program or be another one, and what git writes goes with it.
type judge struct {
	git host
	dir string
}

// judge makes one, for commits with names like this one's.
func (b *Bridge) judge(id string) (j *judge, err error) {
	objects, format := filepath.Join(b.Common, "objects"), "sha1"
	if len(id) == 64 {
		format = "sha256"
	}
	j = &judge{}
	// By this name git knows it for what it is, should we be killed.
	if j.dir, err = os.MkdirTemp(objects, "tmp_objdir-coffer-"); err != nil {
		return nil, err
	}
	err = writeFiles(j.dir, []rootfs.File{{Name: "HEAD", Data: "ref: refs/heads/main\n"}, {Name: "config", Data: bareConfig(format)}})
	if err == nil {
		err = os.Mkdir(filepath.Join(j.dir, "objects"), 0o755)
	}
	if err == nil {
		err = copyIn(b.Common, "shallow", filepath.Join(j.dir, "shallow"))
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

// quoteObjects makes one word of a path in a list of directories.
func quoteObjects(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

func (j *judge) close() { os.RemoveAll(j.dir) }

// maxCandidates bounds at how many commits of another branch the merge is tried.
const maxCandidates = 32

// taken says whether all that a commit brought is in another one: whether there is a commit on the
// way there into which to merge it would have changed nothing. What changed there since does not
// count.
func (j *judge) taken(ctx context.Context, id, other string) bool {
	base, err := j.git.text(ctx, "merge-base", other, id)
	if err != nil {
		return false
	}
	if heavy, err := heavy(ctx, j.git, id); err != nil || heavy {
		return false
	}
	paths, err := j.git.run(ctx, "", "diff-tree", "-r", "-z", "--name-only", "--no-renames", base, id)
	if err != nil || paths == "" {
		return false // what changes nothing is nowhere else
	}
	names := strings.Split(strings.TrimSuffix(paths, "\x00"), "\x00")
	// The newest first; other itself is the one at which what was merged is merely among other changes.
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
