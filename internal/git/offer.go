package git

import (
	"context"
	"fmt"

	"github.com/cofferhq/coffer/internal/ui"
)

// An Offer is a sandbox's branch on its way to the user's remote, at the user's own
// word. Everything was looked at, and nothing was done yet.
type Offer struct {
	Move
	There   bool   // the remote has it already
	Commits int    // that no other branch of the remote has
	Dir     string // where the user finds the repository
}

// Offer looks whether the sandbox's branch can go to a remote. The user sends it, so what
// is there already need not be the sandbox's, as long as nothing of others is given up.
func (b *Bridge) Offer(ctx context.Context, remote string) (*Offer, error) {
	if b.Behind() {
		return nil, ui.Error(fmt.Sprintf("sandbox %s has not synced its latest commits with your repository yet", b.Name), fmt.Sprintf("sync them with 'coffer exec -m %s -- true'", b.Name))
	}
	nothing := ui.Error(fmt.Sprintf("there is nothing to send: no commit on %s that %s does not have", b.Branch, remote), "commit something in the sandbox first")
	tip, err := b.Tip(ctx)
	if err != nil && b.Laid {
		return nil, nothing // it is made with the first commit
	}
	if err != nil {
		return nil, err
	}
	known, pushed, err := b.upstream(ctx, remote)
	if err != nil {
		return nil, err
	}
	out, err := b.refs().text(ctx, "rev-list", "--count", tip, "--exclude="+remote+"/"+b.Branch, "--not", "--remotes="+remote)
	o := &Offer{Move: Move{Remote: remote, Branch: b.Branch, Old: known[b.Branch], New: tip}, Dir: b.place()}
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Sscan(out, &o.Commits); err != nil {
		return nil, fmt.Errorf("git rev-list: unexpected answer %q", out)
	}
	if o.Commits == 0 {
		return nil, nothing
	}
	ours := o.Old != "" && pushed[b.Branch] == o.Old
	o.own, o.There = o.Old == "" || ours, o.Old == tip
	if o.Old != "" && !o.There {
		ahead, err := (&session{Bridge: b}).contains(ctx, tip, o.Old)
		if err != nil {
			return nil, err
		}
		if o.Rewrite = !ahead; o.Rewrite && !ours {
			return nil, ui.Error(fmt.Sprintf("%s has commits on %s that this sandbox has not, and did not push", remote, b.Branch), "look at them with 'git log "+remote+"/"+b.Branch+"', and push yourself")
		}
	}
	return o, nil
}
