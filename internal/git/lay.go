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

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
)

// Lay makes a private git directory that is to lie over the .git of a workspace which the
// user works in too. Programs inside can commit there; what they commit comes out on the
// branch coffer/<name>, and the user's own branch, index and stash are as they were.
//
// It is made for every throw-away, most of which never commit anything. So git is not
// asked, little is written, and nothing of it is in the user's repository before something
// is brought over.
//
// What has no plain repository is [ErrNoRepository].
func Lay(ctx context.Context, o Options, lasting bool) (*Bridge, error) {
	folder, err := filepath.EvalSymlinks(o.Folder)
	if err != nil {
		return nil, err
	}
	r, err := Read(ctx, o.Tree)
	if errors.Is(err, errNotPlain) {
		err = ErrNoRepository
	}
	if err != nil {
		return nil, err
	}
	refs, taken, err := r.plainRefs()
	if err != nil {
		return nil, err
	}
	if err := inTheWay(refs); err != nil {
		return nil, err
	}
	if lasting {
		if b, err := Open(folder); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = b.showRefs(refs)
			}
			return b, err
		}
		// Should we have been killed before it was complete.
		if err := os.RemoveAll(filepath.Join(folder, "git")); err != nil {
			return nil, err
		}
	}
	b := &Bridge{dir: folder, State: State{
		ID: o.ID, Name: o.Name, Common: r.Common, Admin: r.Dir, Tree: o.Tree, Start: o.Tree, Prefix: ".",
		Branch: freeBranch(o.Name, taken), Format: r.Format, Upstream: len(r.remotes()) > 0, Laid: true, Over: r.Dir == filepath.Join(o.Tree, ".git"),
	}}
	if b.Base, err = r.plainHead(); err != nil {
		return nil, ErrNoRepository
	}
	if b.Objects, err = r.objects(); err != nil {
		return nil, ErrNoRepository
	}
	if err := b.lay(r, refs, lasting); err != nil {
		return nil, fmt.Errorf("make the sandbox's git directory: %w", err)
	}
	b.seen = seen{Inside: b.look(), Outside: b.outside()}
	if lasting {
		err = errors.Join(b.put(seenName, &b.seen), b.save())
	}
	return b, err
}

// memory is a private directory that is not on a disk but for its refs, by which we see
// that something was committed.
type memory struct {
	private, export []rootfs.File
}

// maxMemory is how much a throw-away is given that way: it goes through the plan.
const maxMemory = 1 << 20

// lay makes the directory, or has it made.
func (b *Bridge) lay(r *Repository, refs []ref, lasting bool) error {
	split := r.config["core.splitindex"] == "true" // then there is more than one file
	if lasting || split {
		if err := b.writePrivate(r, refs); err != nil || !split {
			return err
		}
		all, _ := filepath.Glob(filepath.Join(escapeGlob(b.Admin), "sharedindex.*"))
		for _, file := range all {
			if err := copyIn(b.Admin, filepath.Base(file), filepath.Join(b.private(), filepath.Base(file))); err != nil {
				return err
			}
		}
		return nil
	}
	private, export, err := b.contents(r, refs)
	if err != nil {
		return err
	}
	size := 0
	for _, f := range append(slices.Clone(private), export...) {
		size += len(f.Data)
	}
	if size > maxMemory {
		return b.writePrivate(r, refs)
	}
	b.memory = &memory{private, export}
	return os.Mkdir(b.private(), 0o755)
}

// wayRef is a branch of the user's that is called coffer. In git there can be no coffer/<name>
// beside it, so that nothing that is committed inside could come out.
const wayRef = "refs/heads/coffer"

var errWay = ui.Error("the repository has a branch named coffer, which is in the way of the branches coffer/… of sandboxes", "rename it, for instance with 'git branch -m coffer coffer-old'")

// inTheWay is an error if there is such a branch. The refs are in the order of their names.
func inTheWay(refs []ref) error {
	if _, there := slices.BinarySearchFunc(refs, wayRef, func(f ref, name string) int { return strings.Compare(f.name, name) }); there {
		return errWay
	}
	return nil
}

// freeBranch is a name that no branch has yet.
func freeBranch(name string, taken map[string]bool) string {
	branch := "coffer/" + name
	for i := 2; taken[branch]; i++ {
		branch = fmt.Sprintf("coffer/%s-%d", name, i)
	}
	return branch
}

// begin notes, before the first thing is written to the user's repository, what is to be
// taken away again.
func (b *Bridge) begin(ctx context.Context) error {
	if !b.Laid || b.begun {
		return nil
	}
	if err := b.save(); err != nil {
		return err
	}
	if b.Base != "" {
		if _, err := b.refs().run(ctx, "", "update-ref", "-m", madeFor+b.dir, "--create-reflog", b.own()+"base", b.Base); err != nil {
			return err
		}
	}
	b.begun = true
	return nil
}

// Begun says whether something of the sandbox's is in the user's repository.
func (b *Bridge) Begun() bool { return b.begun }

// catchUp moves a sandbox that has committed nothing yet to where the user's HEAD is now:
// the files are the user's, so what they are compared to should be too.
func (s *session) catchUp(ctx context.Context) error {
	if !s.Laid || s.head != s.Branch || s.refs[s.incoming()+s.Branch].id != s.Base {
		return nil
	}
	r := &Repository{Common: s.Common, Dir: s.Admin}
	head, err := r.plainHead()
	if err != nil || head == "" || head == s.Base {
		return nil // of the user's making, and no reason to stop
	}
	if s.refs[s.branchRef()].id != "" {
		return nil // it came out already
	}
	words, status, err := s.ask(ctx, s.o, "reset", "-q", head)
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
