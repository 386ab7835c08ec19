package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/wire"
)

// maxBranches bounds how many branches of a sandbox appear outside.
const maxBranches = 500

// A tip is where a branch is.
type tip struct {
	id   string
	tree string // the worktree that has it checked out
}

// Sync brings over what was committed on either side since the last time. Nothing is
// overwritten: where both sides moved a branch apart, it returns a note that says what to
// do, and leaves it; so does every call until it is put right. Calls must not overlap.
func (b *Bridge) Sync(ctx context.Context, o wire.Opener) (notes []string, err error) {
	if notes, ok := b.Settled(); ok {
		return notes, nil
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	inside := b.look()
	head, err := b.checkedOut(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &session{Bridge: b, o: o, head: head}
	if err := s.fetch(ctx); err != nil {
		return nil, err
	}
	if err := s.decide(ctx); err != nil {
		return s.notes, err
	}
	current := ""
	if !b.Laid {
		current, err = s.follow(ctx)
	} else if err = s.write(ctx); err == nil {
		err = s.catchUp(ctx)
	}
	if err != nil {
		return s.notes, err
	}
	for _, gone := range s.late {
		if s.public(gone) != current {
			s.drop(gone)
		}
	}
	if err := s.write(ctx); err != nil {
		return s.notes, err
	}
	if err := s.setAside(ctx); err != nil {
		return s.notes, err
	}
	s.sayLaid()
	// The user may have committed since we read the branch: then it counts as unseen.
	if now := b.outside(); !s.again && (b.Laid || !strings.Contains(now, "ref: "+b.branchRef()+"\n") || strings.Contains(now, s.refs[b.branchRef()].id)) {
		err = b.remember(inside, now, s.notes, s.once...)
	}
	return append(slices.Clone(s.notes), s.once...), err
}

// fetch learns where branches are on both sides, and brings over what is missing outside.
// Commits that were too much once are not fetched again before a ref inside has moved.
func (s *session) fetch(ctx context.Context) error {
	now := s.look()
	if s.tooMuch != "" && s.tooMuch == now {
		return errLarge
	}
	refs, err := s.Bridge.fetch(ctx, s.o, []string{"refs/heads/*:" + landed + "heads/*"}, s.own(), "refs/heads/coffer/", s.branchRef())
	if s.tooMuch = ""; errors.Is(err, errLarge) {
		s.tooMuch = now
	}
	if err != nil {
		return err
	}
	s.know(refs)
	for ref := range s.refs {
		b, ok := strings.CutPrefix(ref, s.incoming())
		if _, there := refs[landed+"heads/"+b]; ok && !there {
			s.set(ref, "")
		}
	}
	for ref, at := range refs {
		if b, ok := strings.CutPrefix(ref, landed+"heads/"); ok {
			s.set(s.incoming()+b, at.id)
		}
	}
	return nil
}

// checkedOut is the branch that is checked out inside; none in the middle of a rebase, for
// instance. Git inside is asked only if the files do not say it plainly.
func (b *Bridge) checkedOut(ctx context.Context, o wire.Opener) (string, error) {
	if commit, branch := b.insideHead(); commit != "" {
		return branch, nil
	}
	head, status, err := b.ask(ctx, o, "symbolic-ref", "-q", "HEAD")
	if err != nil || status != 0 {
		return "", err
	}
	return strings.TrimPrefix(head, "refs/heads/"), nil
}

// session is one run of Sync.
type session struct {
	*Bridge
	o      wire.Opener
	head   string         // the branch that is checked out inside
	refs   map[string]tip // the host's refs that are about this sandbox, as they are to be
	was    map[string]tip // and as they are
	late   []string       // branches that went inside and are still checked out outside
	notes  []string
	once   []string // notes that are news, and not true for as long as nothing changes
	again  bool     // something changed inside
	theirs bool     // what is checked out was moved by the user, outside
}

func (s *session) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// know notes those of the host's refs that are about this sandbox.
func (s *session) know(refs map[string]tip) {
	s.refs = map[string]tip{}
	for name, at := range refs {
		if _, ours := s.inside(name); ours || strings.HasPrefix(name, s.own()) {
			s.refs[name] = at
		}
	}
	s.was = maps.Clone(s.refs)
}

// read lists them.
func (s *session) read(ctx context.Context) error {
	refs, err := s.list(ctx, s.Bridge.refs(), s.own(), "refs/heads/coffer/", s.branchRef())
	if err == nil {
		s.know(refs)
	}
	return err
}

// list lists refs below some prefixes, and which worktree has them checked out.
func (b *Bridge) list(ctx context.Context, h host, prefixes ...string) (map[string]tip, error) {
	out, err := h.run(ctx, "", append([]string{"for-each-ref", "--format=%(objectname)%00%(refname)%00%(worktreepath)%00"}, prefixes...)...)
	refs := map[string]tip{}
	for f := strings.Split(out, "\x00"); len(f) >= 3; f = f[3:] {
		refs[f[1]] = tip{id: strings.TrimPrefix(f[0], "\n"), tree: f[2]}
	}
	return refs, err
}

// decide looks at every branch inside, and at those that are no longer there.
func (s *session) decide(ctx context.Context) error {
	var branches, gone []string
	for ref := range s.refs {
		if b, ok := strings.CutPrefix(ref, s.incoming()); ok {
			branches = append(branches, b)
		} else if b, ok := strings.CutPrefix(ref, s.synced()); ok && s.refs[s.incoming()+b].id == "" && b != s.Branch {
			gone = append(gone, b)
		}
	}
	slices.Sort(branches)
	if len(branches) > maxBranches {
		s.note("the sandbox has %d branches, of which %d are shown outside", len(branches), maxBranches)
		branches = branches[:maxBranches]
		if !slices.Contains(branches, s.Branch) && s.refs[s.incoming()+s.Branch].id != "" {
			branches[0] = s.Branch
		}
	}
	for _, b := range branches {
		if err := s.branch(ctx, b); err != nil {
			return err
		}
	}
	for _, b := range gone {
		if s.refs[s.public(b)].tree == s.Tree {
			s.late = append(s.late, b) // when something else is checked out
			continue
		}
		s.drop(b)
	}
	return nil
}

// drop removes a branch that was removed inside, unless the user has changed it since.
func (s *session) drop(b string) {
	if public := s.refs[s.public(b)]; public.id == s.refs[s.synced()+b].id && (public.tree == "" || public.tree == s.Tree) {
		s.set(s.public(b), "")
	}
	s.set(s.synced()+b, "")
}

// branch decides about one branch. There are three commits: where it is inside, where it
// is outside, and where both were when they last agreed.
func (s *session) branch(ctx context.Context, b string) error {
	inside, outside, agreed := s.refs[s.incoming()+b], s.refs[s.public(b)], s.refs[s.synced()+b]
	switch {
	case inside.id == outside.id:
		s.set(s.synced()+b, inside.id)
		return s.settled(ctx, b, inside.id)
	case s.Laid && outside.id == "" && inside.id == s.Base:
		return nil // nothing was committed
	case outside.id == "" && b != s.Branch && agreed.id == inside.id:
		return nil // the user removed it, and nothing new has come
	case outside.tree != "" && outside.tree != s.Tree:
		s.note("the branch %s is checked out in %s and was not moved to %.12s", short(s.public(b)), outside.tree, inside.id)
		return nil
	case outside.id == "", outside.id == agreed.id:
		return s.takeOut(ctx, b, inside.id, outside.id)
	case inside.id == agreed.id:
		return s.takeIn(ctx, b, inside.id, outside.id)
	}
	// Both moved. If one has what the other has, there is nothing to lose.
	if ok, err := s.contains(ctx, inside.id, outside.id); err != nil || ok {
		if err == nil {
			err = s.takeOut(ctx, b, inside.id, outside.id)
		}
		return err
	}
	if ok, err := s.contains(ctx, outside.id, inside.id); err != nil || ok {
		if err == nil {
			err = s.takeIn(ctx, b, inside.id, outside.id)
		}
		return err
	}
	s.diverged(b, inside.id, outside.id)
	return nil
}

// takeOut moves a branch outside to where it is inside. What the sandbox rewrites is its
// own; but a commit that the user made outside must not be lost that way.
func (s *session) takeOut(ctx context.Context, b, inside, outside string) error {
	if mine := s.refs[s.mine(b)].id; mine != "" {
		if ok, err := s.contains(ctx, inside, mine); err != nil {
			return err
		} else if !ok {
			s.diverged(b, inside, outside)
			return nil
		}
	}
	if heavy, err := s.heavy(ctx, inside); err != nil {
		return err
	} else if heavy {
		s.note("the branch %s was not moved to %.12s, which has too many files (%d at most); take them out of the commit, inside", short(s.public(b)), inside, maxPaths)
		return nil
	}
	if s.Laid && outside == "" && inside != s.refs[s.own()+"base"].id {
		s.cameOut = append(s.cameOut, short(s.public(b)))
	}
	s.set(s.public(b), inside)
	s.set(s.synced()+b, inside)
	return nil
}

// mine is the ref that keeps the last commit of a branch that was made outside.
func (s *session) mine(b string) string { return s.own() + "outside/" + b }

// settled forgets about commits made outside that the user himself has given up.
func (s *session) settled(ctx context.Context, b, id string) error {
	mine := s.refs[s.mine(b)].id
	if mine == "" {
		return nil
	}
	ok, err := s.contains(ctx, id, mine)
	if err == nil && !ok {
		s.set(s.mine(b), "")
	}
	return err
}

// takeIn moves a branch inside to where it is outside. Its objects can be seen there
// already. If it is checked out, the index follows; the files are the same.
func (s *session) takeIn(ctx context.Context, b, inside, outside string) error {
	if s.Laid && b == s.head {
		s.diverged(b, inside, outside) // the files are not those of that commit
		return nil
	}
	if b == s.head {
		words, status, err := s.ask(ctx, s.o, "read-tree", "-m", "-i", inside, outside)
		if err != nil {
			return err
		}
		if status != 0 {
			s.note("the branch %s was moved outside to %.12s, and cannot follow inside, where other changes are staged (%s); commit them there", short(s.public(b)), outside, words)
			return nil
		}
	}
	words, status, err := s.ask(ctx, s.o, "update-ref", "-m", "coffer: made outside", "refs/heads/"+b, outside, inside)
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

// sayLaid says what became of a directory of the user's: what came out of it, and that another
// branch was checked out there. It is said until the supervisor ends, which is once for who listens.
func (s *session) sayLaid() {
	for i, branch := range s.cameOut {
		if i == maxNamed {
			s.once = append(s.once, fmt.Sprintf("what was committed inside is on %d more branches: list them with 'git branch --list %s@*'", len(s.cameOut)-i, shellWord(s.Branch)))
			break
		}
		s.once = append(s.once, "what was committed inside is on the branch "+branch)
		if branch == s.Branch {
			s.once = append(s.once, "take it with 'coffer merge "+strings.TrimPrefix(s.Branch, "coffer/")+"'")
		}
	}
	ready := ""
	switch {
	case s.Laid && s.head != "" && s.head != s.Branch:
		s.once = append(s.once, fmt.Sprintf("the branch %s was checked out inside: your files are as it left them, and your own branch is as before; see 'git status'", s.head))
	case slices.Contains(s.cameOut, s.Branch):
		ready = s.Branch
	}
	s.mu.Lock()
	s.ready = ready
	s.mu.Unlock()
}

// CameOut is the sandbox's branch, if something that was committed over a directory of the user's
// came out on it, and no other is checked out inside.
func (b *Bridge) CameOut() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready
}

func (s *session) diverged(b, inside, outside string) {
	take := fmt.Sprintf("git -C %s reset %s", shellWord(s.Tree), shellWord(s.incoming()+b))
	if s.Laid {
		take = fmt.Sprintf("git branch -f %s %s", shellWord(short(s.public(b))), shellWord(s.incoming()+b))
	}
	s.note("the branch %s was moved inside to %.12s and outside to %.12s: nothing was overwritten; inside, run 'git merge %.12s', or take the sandbox's commits with '%s'",
		short(s.public(b)), inside, outside, outside, take)
}

// contains says whether a commit is another one or comes after it.
func (s *session) contains(ctx context.Context, id, old string) (bool, error) {
	_, err := s.Bridge.refs().run(ctx, "", "merge-base", "--is-ancestor", old, id)
	if code(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

func short(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }
