package git

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Ref names a commit or a tag.
type Ref struct {
	Name, ID string
	Peeled   string // what a tag points to
	Target   string // the ref that a symbolic one stands for
	tree     string // the worktree that has the branch checked out
}

// list lists the refs below some prefixes, or those of exactly such names.
func (h host) list(ctx context.Context, prefixes ...string) (refs []Ref, err error) {
	out, err := h.run(ctx, "", append([]string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(*objectname)%00%(symref)%00%(worktreepath)%00"}, prefixes...)...)
	if err != nil {
		return nil, err
	}
	f := strings.Split(out, "\x00")
	for ; len(f) > 5; f = f[5:] {
		refs = append(refs, Ref{strings.TrimPrefix(f[0], "\n"), f[1], f[2], f[3], f[4]})
	}
	return refs, nil
}

// byName is a list of refs by their names.
func byName(refs []Ref) map[string]Ref {
	all := map[string]Ref{}
	for _, r := range refs {
		all[r.Name] = r
	}
	return all
}

// usersRefs lists the user's branches and tags. Sandboxes do not see each other's.
func (h host) usersRefs(ctx context.Context) ([]Ref, error) {
	refs, err := h.list(ctx, "refs/heads/", "refs/tags/")
	return slices.DeleteFunc(refs, func(r Ref) bool { return strings.HasPrefix(r.Name, wayRef+"/") }), err
}

// wayRef is a branch that leaves no room for the branches coffer/<name>.
const wayRef = "refs/heads/coffer"

var errWay = ui.Error("the repository has a branch named coffer, which is in the way of the branches coffer/… of sandboxes", "rename it, for instance with 'git branch -m coffer coffer-old'")

// inTheWay is an error if there is such a branch.
func inTheWay(refs []Ref) error {
	if slices.ContainsFunc(refs, func(r Ref) bool { return r.Name == wayRef }) {
		return errWay
	}
	return nil
}

// packed writes refs as git packs them.
func packed(refs []Ref) string {
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n") // git itself looks up tags of tags
	for _, r := range refs {
		b.WriteString(r.ID + " " + r.Name + "\n")
		if r.Peeled != "" {
			b.WriteString("^" + r.Peeled + "\n")
		}
	}
	return b.String()
}

// shownRefs are the host's refs that the sandbox fetches from origin.
type shownRefs struct {
	mu    sync.Mutex
	text  string // as they were written
	stamp string // what their files looked like
}

// refreshPatience bounds how long the start of a program waits for them.
const refreshPatience = 2 * time.Second

// Refresh shows the sandbox the host's branches and tags, if they have moved.
func (b *Bridge) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshPatience)
	defer cancel()
	b.shown.mu.Lock()
	defer b.shown.mu.Unlock()
	stamp := stampRefs(b.Common)
	if stamp == b.shown.stamp {
		return nil
	}
	refs, err := b.refs().usersRefs(ctx)
	if err != nil {
		return err
	}
	if err := b.shown.write(b.export(), refs); err != nil {
		return err
	}
	b.shown.stamp = stamp
	return nil
}

// write writes refs where git inside fetches from.
func (s *shownRefs) write(export string, refs []Ref) error {
	text := packed(refs)
	if text == s.text {
		return nil
	}
	path := filepath.Join(export, "packed-refs")
	if err := (safepath.File{Path: path, Mode: 0o644, Alone: true}).Write([]byte(text)); err != nil {
		return err
	}
	s.text = text
	return nil
}
