package git

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// A push inside says which branches of the remote are to be where. The host pushes, with the
// user's credentials, and only what is judged here to be the sandbox's to push:
//
//   - The commit must be on one of the branches that were synced.
//   - The branch is the sandbox's own, by its name, or the user named it in git.push_patterns.
//   - What is there already was made by this sandbox, or the user named the branch without a
//     wildcard. Only the former may be rewritten or deleted.
//
// The remote refuses if it is no longer as was judged.

// A Move is one branch of the remote that is to change, and was found to be the sandbox's.
type Move struct {
	Remote, Branch string
	Old, New       string // "" for none
	Rewrite        bool   // commits of the sandbox's own are given up
	own            bool   // the sandbox made the branch, or is about to
}

// String says what would happen, for the user to decide about.
func (m Move) String() string {
	switch {
	case m.New == "":
		return fmt.Sprintf("delete the branch %s of %s", m.Branch, m.Remote)
	case m.Old == "":
		return fmt.Sprintf("push %.12s to %s as the new branch %s", m.New, m.Remote, m.Branch)
	case m.Rewrite:
		return fmt.Sprintf("push %.12s to %s, in place of what is on its branch %s", m.New, m.Remote, m.Branch)
	}
	return fmt.Sprintf("push %.12s to the branch %s of %s", m.New, m.Branch, m.Remote)
}

// A claim is the right by which a sandbox would push to a branch.
type claim int

const (
	claimNone claim = iota
	claimNew        // its own by name, or by a wildcard: what it makes there itself
	claimAny        // the user named this very branch
)

func (s *State) claim(branch string, patterns []string) claim {
	switch {
	case branch == s.Branch || strings.HasPrefix(branch, "coffer/"+s.Name+"@"):
		return claimNew
	case branch == "coffer" || strings.HasPrefix(branch, "coffer/"):
		return claimNone // those of other sandboxes, whatever a wildcard says
	case slices.Contains(patterns, branch):
		return claimAny
	}
	for _, p := range patterns {
		wild := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$"
		if ok, err := regexp.MatchString(wild, branch); err == nil && ok {
			return claimNew
		}
	}
	return claimNone
}

// maxShown bounds the branches of the remote that a client is told of.
const maxShown = 1000

// Pushable lists the remote's branches that the sandbox could push to, and the commits of the
// sandbox that the host has.
func (r *Remote) Pushable(ctx context.Context, patterns []string) (refs []Ref, have []string, err error) {
	known, _, err := r.branches(ctx)
	if err != nil {
		return nil, nil, err
	}
	for branch, id := range known {
		if r.bridge.claim(branch, patterns) != claimNone && len(refs) < maxShown {
			refs = append(refs, Ref{Name: "refs/heads/" + branch, ID: id})
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	mine, err := r.bridge.refs().list(ctx, r.bridge.incoming())
	for _, ref := range mine[:min(len(mine), maxShown)] {
		have = append(have, ref.ID)
	}
	slices.Sort(have)
	return refs, slices.Compact(have), err
}

// Judge decides whether a command is the sandbox's to give. Its commits were synced.
func (r *Remote) Judge(ctx context.Context, patterns []string, c PushCommand) (m Move, err error) {
	b, branch := r.bridge, c.Branch()
	if branch == "" {
		return m, ui.Error("only branches can be pushed from a sandbox", "the user can push it, outside")
	}
	right := b.claim(branch, patterns)
	if right == claimNone {
		return m, ui.Error(fmt.Sprintf("%s is not a branch of this sandbox", branch), fmt.Sprintf(
			"push to its own: git push origin HEAD:%s; the user can allow other names with git.push_patterns in coffer.toml", b.Branch))
	}
	known, pushed, err := r.branches(ctx)
	if err != nil {
		return m, err
	}
	m = Move{Remote: r.Name, Branch: branch, Old: known[branch], New: c.New}
	ours := m.Old != "" && pushed[branch] == m.Old
	m.own = m.Old == "" || ours
	switch {
	case c.Old != m.Old:
		return m, ui.Error(fmt.Sprintf("%s has moved meanwhile", branch), "push again")
	case !m.own && right != claimAny:
		return m, ui.Error(fmt.Sprintf("%s has a branch %s that this sandbox did not push, or that somebody else has moved since", r.Name, branch),
			fmt.Sprintf("push to another name; or the user names it in git.push_patterns, without a *: push_patterns = [%q]", branch))
	case m.New == "" && !ours:
		return m, ui.Error(fmt.Sprintf("this sandbox did not push %s, and cannot delete it", branch), "the user can, outside")
	case m.New == "":
		return m, nil
	}
	out, err := b.refs().run(ctx, "", "for-each-ref", "--count=1", "--format=x", "--contains="+m.New, b.incoming())
	switch {
	case (err != nil || out == "") && m.New == b.Base:
		return m, ui.Error("there is nothing to push: nothing was committed in this sandbox yet", "commit something first")
	case err != nil || out == "":
		return m, ui.Error(fmt.Sprintf("%.12s is on no branch of this sandbox that has come out", m.New), "commit it to a branch, and push again")
	}
	if why, err := b.unfit(ctx, m.New); err != nil || why != "" {
		return m, cmp.Or(err, fmt.Errorf("%.12s cannot be pushed: %s", m.New, why))
	}
	if m.Old == "" {
		return m, nil
	}
	ahead, err := b.refs().contains(ctx, m.New, m.Old)
	if m.Rewrite = !ahead; err == nil && m.Rewrite && !ours {
		err = ui.Error(fmt.Sprintf("%s has commits on %s that %.12s does not have, and that are not this sandbox's", r.Name, branch, m.New), "the user can fetch them outside; then merge or rebase, and push again")
	}
	return m, err
}

// A RejectedError is the remote's own refusal, which may be told inside. What else goes wrong
// may name the user's credentials.
type RejectedError struct{ Reason string }

func (e *RejectedError) Error() string { return e.Reason }

// Push has the host push. reach are directories that the sandbox can write. said is what the
// remote's server said, and is a stranger's.
func (r *Remote) Push(ctx context.Context, m Move, reach []string) (said []string, err error) {
	ref := "refs/heads/" + m.Branch
	out, errs, err := r.run(ctx, reach, []string{"push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no", "push.default=nothing"},
		"push", "--porcelain", "--no-verify", "--no-progress", "--force-with-lease="+ref+":"+m.Old, "--", r.Name, m.New+":"+ref)
	for line := range strings.Lines(errs) {
		if text, ok := strings.CutPrefix(line, "remote:"); ok && len(said) < 40 && strings.TrimSpace(text) != "" {
			said = append(said, strings.TrimSpace(text))
		}
	}
	if err != nil {
		for line := range strings.Lines(out) {
			if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 && f[0] == "!" {
				err = &RejectedError{f[2]}
			}
		}
		return said, fmt.Errorf("push to %s: %w", r.Name, err)
	}
	pushed := r.bridge.pushed() + m.Branch
	switch {
	case m.New == "":
		_, err = r.bridge.refs().run(ctx, "", "update-ref", "-d", pushed)
	case m.own:
		_, err = r.bridge.refs().run(ctx, "", "update-ref", pushed, m.New)
	}
	return said, err
}

// userinfo is what a URL may have before its host.
var userinfo = regexp.MustCompile(`://[^/\s@]+@`)

// Redact removes credentials from what git says.
func Redact(text string) string { return userinfo.ReplaceAllString(text, "://") }

// An Offer is a sandbox's branch on its way to the user's remote, at the user's own word.
// Everything was looked at, and nothing was done yet.
type Offer struct {
	Move
	There   bool   // the remote has it already
	Commits int    // that no other branch of the remote has
	Dir     string // where the user finds the repository
}

// Offer looks whether the sandbox's branch can go to the remote. The user sends it, so what is
// there already need not be the sandbox's, as long as nothing of others is given up.
func (r *Remote) Offer(ctx context.Context) (*Offer, error) {
	b := r.bridge
	if b.Behind() {
		return nil, ui.Error(fmt.Sprintf("sandbox %s has not synced its latest commits with your repository yet", b.Name), b.fetchHint())
	}
	nothing := ui.Error(fmt.Sprintf("there is nothing to send: no commit on %s that %s does not have", b.Branch, r.Name), "commit something in the sandbox first")
	tip, err := b.Tip(ctx)
	if err != nil && b.Laid {
		return nil, nothing // the first commit makes it
	}
	if err != nil {
		return nil, err
	}
	known, pushed, err := r.branches(ctx)
	if err != nil {
		return nil, err
	}
	o := &Offer{Move: Move{Remote: r.Name, Branch: b.Branch, Old: known[b.Branch], New: tip}, Dir: b.place()}
	out, err := b.refs().text(ctx, "rev-list", "--count", tip, "--exclude="+r.Name+"/"+b.Branch, "--not", "--remotes="+r.Name)
	if err == nil {
		_, err = fmt.Sscan(out, &o.Commits)
	}
	if err != nil {
		return nil, err
	}
	if o.Commits == 0 {
		return nil, nothing
	}
	ours := o.Old != "" && pushed[b.Branch] == o.Old
	o.own, o.There = o.Old == "" || ours, o.Old == tip
	if o.Old == "" || o.There {
		return o, nil
	}
	ahead, err := b.refs().contains(ctx, tip, o.Old)
	if o.Rewrite = !ahead; err == nil && o.Rewrite && !ours {
		err = ui.Error(fmt.Sprintf("%s has commits on %s that this sandbox has not, and did not push", r.Name, b.Branch), "look at them with "+ui.Command("git log", r.Name+"/"+b.Branch)+", and push yourself")
	}
	return o, err
}
