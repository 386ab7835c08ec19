package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// maxBranches bounds how many branches of a sandbox appear outside.
const maxBranches = 500

// Sync brings over what was committed on either side since the last time, and shows the
// sandbox the host's refs. Nothing is overwritten: where both sides moved a branch apart, a
// note says what to do, at every call until that is done. Calls must not overlap.
func (b *Bridge) Sync(ctx context.Context, o wire.Opener) (notes []string, err error) {
	_ = b.Refresh(ctx) // what cannot be read now stays as it was
	if notes, ok := b.Settled(); ok {
		return notes, nil
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	s := &session{Bridge: b, far: far{&b.State, o}}
	inside := b.Glance()
	if s.head, err = s.checkedOut(ctx); err != nil {
		return nil, err
	}
	if err := s.fetch(ctx); err != nil {
		return nil, err
	}
	if err := s.move(ctx); err != nil {
		return s.notes, err
	}
	if err := s.setAside(ctx); err != nil {
		return s.notes, err
	}
	s.sayLaid()
	// The user may have committed since we read the branch: that counts as unseen.
	now := b.outside()
	seen := b.Laid || !strings.Contains(now, "ref: "+b.branchRef()+"\n") || strings.Contains(now, s.now[b.branchRef()].ID)
	if seen && !s.again {
		err = b.remember(inside, now, s.notes, s.once)
	}
	return append(slices.Clone(s.notes), s.once...), err
}

// Once reports whether a note of the last [Bridge.Sync] is news, and not a state that lasts.
func (b *Bridge) Once(note string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.seen.once, note)
}

// CameOut is the sandbox's branch, if commits over a directory of the user's came out on it,
// and no other branch is checked out inside.
func (b *Bridge) CameOut() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready
}

// A session is one run of Sync.
type session struct {
	*Bridge
	refEdit
	far    far
	head   string   // the branch that is checked out inside; none in the middle of a rebase
	late   []string // branches that are gone inside and still checked out outside
	notes  []string
	once   []string // notes that are news, and not true for as long as nothing changes
	again  bool     // something changed inside
	theirs bool     // the user moved, outside, what is checked out
}

func (s *session) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *session) news(format string, args ...any) {
	s.once = append(s.once, fmt.Sprintf(format, args...))
}

// checkedOut is the branch that is checked out inside. Git inside is asked only if the files
// do not say it plainly.
func (s *session) checkedOut(ctx context.Context) (string, error) {
	if commit, branch := s.private().head(); commit != "" {
		return branch, nil
	}
	head, status, err := s.far.git(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil || status != 0 {
		return "", err
	}
	return strings.TrimPrefix(head, "refs/heads/"), nil
}

// fetch learns where branches are on both sides, and fetches what is missing outside. Commits
// that were too much once are not fetched again before a ref inside has moved.
func (s *session) fetch(ctx context.Context) error {
	now := s.Glance()
	if s.tooMuch != "" && s.tooMuch == now {
		return errLarge
	}
	refs, err := s.Bridge.fetch(ctx, s.far, []string{"refs/heads/*:" + landed + "heads/*"}, s.ours()...)
	if s.tooMuch = ""; errors.Is(err, errLarge) {
		s.tooMuch = now
	}
	if err != nil {
		return err
	}
	s.refEdit = s.ownRefs().edit(refs)
	for ref := range s.now {
		b, ok := strings.CutPrefix(ref, s.incoming())
		if _, there := refs[landed+"heads/"+b]; ok && !there {
			s.set(ref, "")
		}
	}
	for ref, at := range refs {
		if b, ok := strings.CutPrefix(ref, landed+"heads/"); ok {
			s.set(s.incoming()+b, at.ID)
		}
	}
	return nil
}

// move decides about every branch, and moves refs, HEAD and index of the host.
func (s *session) move(ctx context.Context) error {
	if err := s.decide(ctx); err != nil {
		return err
	}
	current := ""
	var err error
	if !s.Laid {
		current, err = s.follow(ctx)
	} else if err = s.write(ctx); err == nil {
		err = s.catchUp(ctx)
	}
	if err != nil {
		return err
	}
	for _, gone := range s.late {
		if s.public(gone) != current {
			s.drop(gone)
		}
	}
	return s.write(ctx)
}

// decide looks at every branch inside, and at those that are no longer there.
func (s *session) decide(ctx context.Context) error {
	var branches, gone []string
	for ref := range s.now {
		if b, ok := strings.CutPrefix(ref, s.incoming()); ok {
			branches = append(branches, b)
		} else if b, ok := strings.CutPrefix(ref, s.synced()); ok && s.now[s.incoming()+b].ID == "" && b != s.Branch {
			gone = append(gone, b)
		}
	}
	slices.Sort(branches)
	if len(branches) > maxBranches {
		s.note("the sandbox has %d branches, of which %d are shown outside", len(branches), maxBranches)
		branches = branches[:maxBranches]
		if !slices.Contains(branches, s.Branch) && s.now[s.incoming()+s.Branch].ID != "" {
			branches[0] = s.Branch
		}
	}
	for _, b := range branches {
		if err := s.branch(ctx, b); err != nil {
			return err
		}
	}
	for _, b := range gone {
		if s.now[s.public(b)].tree == s.Tree {
			s.late = append(s.late, b) // when something else is checked out
			continue
		}
		s.drop(b)
	}
	return nil
}

// drop removes a branch that was removed inside, unless the user has changed it since.
func (s *session) drop(b string) {
	if public := s.now[s.public(b)]; public.ID == s.now[s.synced()+b].ID && (public.tree == "" || public.tree == s.Tree) {
		s.set(s.public(b), "")
	}
	s.set(s.synced()+b, "")
}

// branch decides about one branch. There are three commits: where it is inside, where it is
// outside, and where both were when they last agreed.
func (s *session) branch(ctx context.Context, b string) error {
	inside, outside, agreed := s.now[s.incoming()+b].ID, s.now[s.public(b)], s.now[s.synced()+b].ID
	switch {
	case inside == outside.ID:
		s.set(s.synced()+b, inside)
		return s.settled(ctx, b, inside)
	case s.Laid && outside.ID == "" && inside == s.Base:
		return nil // nothing was committed
	case outside.ID == "" && b != s.Branch && agreed == inside:
		return nil // the user removed it, and nothing new has come
	case outside.ID == "" && ui.Word(b) != b && b != s.Branch: // the user may copy it into a command
		s.note("the branch %q was not brought over, because a shell would not take its name as it is; rename it, inside", b)
		return nil
	case outside.tree != "" && outside.tree != s.Tree:
		s.note("the branch %s is checked out in %s and was not moved to %.12s", short(s.public(b)), outside.tree, inside)
		return nil
	case outside.ID == "", outside.ID == agreed:
		return s.takeOut(ctx, b, inside, outside.ID)
	case inside == agreed:
		return s.takeIn(ctx, b, inside, outside.ID)
	}
	// Both moved. If one has what the other has, there is nothing to lose.
	if ok, err := s.refs().contains(ctx, inside, outside.ID); err != nil {
		return err
	} else if ok {
		return s.takeOut(ctx, b, inside, outside.ID)
	}
	if ok, err := s.refs().contains(ctx, outside.ID, inside); err != nil {
		return err
	} else if ok {
		return s.takeIn(ctx, b, inside, outside.ID)
	}
	s.diverged(b, inside, outside.ID)
	return nil
}

// takeOut moves a branch outside to where it is inside. What the sandbox rewrites is its own;
// but a commit that the user made outside must not be lost that way.
func (s *session) takeOut(ctx context.Context, b, inside, outside string) error {
	if mine := s.now[s.mine(b)].ID; mine != "" {
		if ok, err := s.refs().contains(ctx, inside, mine); err != nil {
			return err
		} else if !ok {
			s.diverged(b, inside, outside)
			return nil
		}
	}
	if why, err := s.unfit(ctx, inside); err != nil {
		return err
	} else if why != "" {
		s.note("the branch %s was not moved to %.12s: %s", short(s.public(b)), inside, why)
		return nil
	}
	if s.Laid && outside == "" && inside != s.now[s.own()+"base"].ID {
		s.cameOut = append(s.cameOut, short(s.public(b)))
	}
	s.set(s.public(b), inside)
	s.set(s.synced()+b, inside)
	return nil
}

// mine is the ref of the last commit of a branch that was made outside.
func (s *session) mine(b string) string { return s.own() + "outside/" + b }

// settled forgets commits made outside that the user has given up.
func (s *session) settled(ctx context.Context, b, id string) error {
	mine := s.now[s.mine(b)].ID
	if mine == "" {
		return nil
	}
	ok, err := s.refs().contains(ctx, id, mine)
	if err == nil && !ok {
		s.set(s.mine(b), "")
	}
	return err
}

// takeIn moves a branch inside to where it is outside. Its objects can be seen there already.
// If it is checked out, the index follows; the files are the same.
func (s *session) takeIn(ctx context.Context, b, inside, outside string) error {
	if s.Laid && b == s.head {
		s.diverged(b, inside, outside) // the files are not those of that commit
		return nil
	}
	if b == s.head {
		words, status, err := s.far.git(ctx, "read-tree", "-m", "-i", inside, outside)
		if err != nil {
			return err
		}
		if status != 0 {
			s.note("the branch %s was moved outside to %.12s, and cannot follow inside, where other changes are staged (%s); commit them there", short(s.public(b)), outside, words)
			return nil
		}
	}
	words, status, err := s.far.git(ctx, "update-ref", "-m", "coffer: made outside", "refs/heads/"+b, outside, inside)
	if err != nil {
		return err
	}
	s.again = true
	if status != 0 {
		s.note("the branch %s was moved outside to %.12s, and could not follow inside: %s", short(s.public(b)), outside, words)
		return nil
	}
	s.theirs = s.theirs || b == s.head
	s.set(s.incoming()+b, outside)
	s.set(s.synced()+b, outside)
	s.set(s.mine(b), outside)
	return nil
}

func (s *session) diverged(b, inside, outside string) {
	take := ui.Command("git -C", s.Tree, "reset", s.incoming()+b)
	if s.Laid {
		take = ui.Command("git branch -f", short(s.public(b)), s.incoming()+b)
	}
	s.note("the branch %s was moved inside to %.12s and outside to %.12s: nothing was overwritten; inside, run 'git merge %.12s', or take the sandbox's commits with %s",
		short(s.public(b)), inside, outside, outside, take)
}

// sayLaid tells what became of a directory of the user's: what came out of it, and that another
// branch was checked out there. The notes stay the same until the supervisor ends.
func (s *session) sayLaid() {
	for i, branch := range s.cameOut {
		if i == maxNamed {
			s.news("what was committed inside is on %d more branches: list them with %s", len(s.cameOut)-i, ui.Command("git branch --list", s.Branch+"@*"))
			break
		}
		s.news("what was committed inside is on the branch %s", branch)
		if branch == s.Branch {
			s.news("take it with 'coffer merge %s'", strings.TrimPrefix(s.Branch, "coffer/"))
		}
	}
	ready := ""
	switch {
	case s.Laid && s.head != "" && s.head != s.Branch:
		s.news("the branch %s was checked out inside: your files are as it left them, and your own branch is as before; see 'git status'", s.head)
	case slices.Contains(s.cameOut, s.Branch):
		ready = s.Branch
	}
	s.mu.Lock()
	s.ready = ready
	s.mu.Unlock()
}

func short(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// A refEdit are the host's refs that are about one sandbox, as they were and as they are to be.
type refEdit struct {
	of       ownRefs
	was, now map[string]Ref
}

// ours are the prefixes of those refs.
func (s *State) ours() []string { return []string{s.own(), wayRef + "/", s.branchRef()} }

// read reads them.
func (b ownRefs) read(ctx context.Context) (refEdit, error) {
	refs, err := b.git.list(ctx, b.ours()...)
	return b.edit(byName(refs)), err
}

func (b ownRefs) edit(refs map[string]Ref) refEdit {
	e := refEdit{of: b, now: map[string]Ref{}}
	for name, at := range refs {
		if _, ours := b.inside(name); ours || strings.HasPrefix(name, b.own()) {
			e.now[name] = at
		}
	}
	e.was = maps.Clone(e.now)
	return e
}

// set notes that a ref is to move; "" deletes it.
func (e *refEdit) set(ref, id string) {
	if id == "" {
		delete(e.now, ref)
		return
	}
	now := e.now[ref]
	now.ID = id
	e.now[ref] = now
}

// write moves the refs to where they were set, if they are still where they were read: all, or
// none. Deletions come first, because a deleted ref may be in the way of a new one.
func (e *refEdit) write(ctx context.Context) error {
	var gone, come strings.Builder
	for _, ref := range slices.Sorted(maps.Keys(e.was)) {
		if e.now[ref].ID == "" {
			fmt.Fprintf(&gone, "delete %s %s\n", ref, e.was[ref].ID)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(e.now)) {
		switch was, is := e.was[ref].ID, e.now[ref].ID; {
		case was == "":
			fmt.Fprintf(&come, "create %s %s\n", ref, is)
		case was != is:
			fmt.Fprintf(&come, "update %s %s %s\n", ref, is, was)
		}
	}
	for _, lines := range []string{gone.String(), come.String()} {
		if lines == "" {
			continue
		}
		if err := e.of.move(ctx, e.of.why(), lines); err != nil {
			return err
		}
	}
	e.was = maps.Clone(e.now)
	return nil
}
