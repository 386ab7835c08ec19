package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// Lay makes a private git directory to lie over the .git of a workspace which the user
// works in too. Programs inside can commit there; their commits come out on the branch
// coffer/<name>, and the user's own branch, index and stash stay as they were. The user's
// repository is not written before the first sync.
//
// A directory without a plain repository of the user's is [ErrNoRepository].
func Lay(ctx context.Context, o Options) (*Bridge, error) {
	folder, err := filepath.EvalSymlinks(o.Folder)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, layPatience)
	defer cancel()
	r, err := layable(ctx, o.Tree)
	if err != nil {
		return nil, err
	}
	stamp := stampRefs(r.Common)
	refs, err := r.git().usersRefs(ctx)
	if err != nil {
		return nil, ErrNoRepository
	}
	if err := inTheWay(refs); err != nil {
		return nil, err
	}
	if b, err := Open(folder); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = b.shown.write(b.export(), refs)
		}
		return b, err
	}
	// The one before us may have been killed.
	if err := os.RemoveAll(filepath.Join(folder, "git")); err != nil {
		return nil, err
	}
	b := &Bridge{dir: folder, State: State{
		ID: o.ID, Name: o.Name, Common: r.Common, Admin: r.Dir, Tree: o.Tree, Start: o.Tree, Prefix: ".", Base: r.Head(ctx),
		Format: r.Format, Upstream: len(r.remotes()) > 0, Laid: true, Over: r.Dir == filepath.Join(o.Tree, ".git"),
	}}
	if b.Branch, err = r.freeBranch(ctx, o.Name); err != nil {
		return nil, err
	}
	if b.Objects, err = r.objects(); err != nil {
		return nil, ErrNoRepository
	}
	if err := (maker{b, r}).writePrivate(refs); err != nil {
		return nil, fmt.Errorf("make the sandbox's git directory: %w", err)
	}
	b.shown.stamp = stamp
	return b, errors.Join(b.remember(b.Glance(), b.outside(), nil, nil), b.save())
}

// layPatience is how long git may take to read the repository. A stranger can have made it,
// with pipes in place of files.
const layPatience = 5 * time.Second

// layable finds the user's repository of a working tree by its files: both ends of a .git
// file have to name each other.
func layable(ctx context.Context, dir string) (*Repository, error) {
	at, err := rootfs.FindRepository(dir)
	if err != nil || at.Own == "" || !rootfs.IsGitDir(at.Common) || !mine(at.Common) {
		return nil, ErrNoRepository
	}
	r := &Repository{Common: at.Common, Dir: at.Own, Top: dir, Prefix: ".", Format: "sha1"}
	if err := r.readConfig(ctx); err != nil {
		return nil, ErrNoRepository
	}
	if f := r.config["extensions.objectformat"]; f != "" {
		r.Format = f
	}
	if storage := r.config["extensions.refstorage"]; storage != "" && storage != "files" {
		return nil, ErrNoRepository
	}
	return r, nil
}

// freeBranch is coffer/<name>, or a name like it that no branch has.
func (r *Repository) freeBranch(ctx context.Context, name string) (string, error) {
	taken, err := r.git().list(ctx, wayRef+"/")
	branch := "coffer/" + name
	for i := 2; slices.ContainsFunc(taken, func(r Ref) bool { return r.Name == "refs/heads/"+branch }); i++ {
		branch = fmt.Sprintf("coffer/%s-%d", name, i)
	}
	return branch, err
}

// begin makes the first ref in the user's repository, by which others know whose the rest is.
func (b *Bridge) begin(ctx context.Context) error {
	if !b.Laid || b.begun {
		return nil
	}
	if b.Base != "" {
		if err := b.ownRefs().move(ctx, madeFor+b.dir, fmt.Sprintf("update %sbase %s\n", b.own(), b.Base)); err != nil {
			return err
		}
	}
	b.begun = true
	return nil
}

// Begun reports whether the user's repository has something of the sandbox's.
func (b *Bridge) Begun() bool { return b.begun }

// catchUp moves a sandbox over the user's directory that has committed nothing yet to where
// the user's HEAD is now: the files are the user's.
func (s *session) catchUp(ctx context.Context) error {
	if !s.Laid || s.head != s.Branch || s.now[s.incoming()+s.Branch].ID != s.Base || s.now[s.branchRef()].ID != "" {
		return nil
	}
	head := (&Repository{Dir: s.Admin}).Head(ctx)
	if head == "" || head == s.Base {
		return nil
	}
	words, status, err := s.far.git(ctx, "reset", "-q", head)
	if err != nil {
		return err
	}
	s.again = true
	if status != 0 {
		s.note("your checkout is at %.12s now, and the sandbox could not follow: %s", head, words)
		return nil
	}
	s.set(s.incoming()+s.Branch, head)
	s.set(s.own()+"base", head)
	s.mu.Lock()
	s.Base = head
	s.mu.Unlock()
	return s.save()
}
