package git

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// A Standing is how a sandbox's branch compares to the user's.
type Standing struct {
	Repository string `json:"repository"`
	Branch     string `json:"branch,omitempty"`
	// Ahead and Behind count commits since the branch and the repository's HEAD parted; -1 if
	// that cannot be told.
	Ahead  int `json:"ahead"`
	Behind int `json:"behind"`
	// Merged: HEAD has what the commits ahead change, by other commits.
	Merged bool `json:"merged,omitempty"`
	// Dirty counts the files of the worktree with changes that are in no commit, or those that
	// wait to be applied; -1 if that could not be told in time. It is not counted in a
	// directory of the user's.
	Dirty *int `json:"dirty,omitempty"`
}

// Standings says how several sandboxes stand. Git is never asked about a directory that a
// sandbox can write.
func Standings(ctx context.Context, all []*Bridge) map[*Bridge]*Standing {
	const atOnce = 8
	var asking sync.WaitGroup
	places := make(chan struct{}, atOnce)
	result := map[*Bridge]*Standing{}
	for _, b := range all {
		s := &Standing{Repository: b.place(), Branch: b.Branch, Ahead: -1, Behind: -1}
		result[b] = s
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			s.compare(ctx, b)
		})
	}
	asking.Wait()
	return result
}

// compare compares the branch that is checked out in the worktree outside to HEAD.
func (s *Standing) compare(ctx context.Context, b *Bridge) {
	head, _ := firstLine(filepath.Join(b.Admin, "HEAD"))
	if branch, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok && !b.Laid {
		s.Branch = branch
	}
	var ahead, behind int
	out, err := b.refs().text(ctx, "rev-list", "--count", "--left-right", "refs/heads/"+s.Branch+"...HEAD", "--")
	if err == nil {
		_, err = fmt.Sscan(out, &ahead, &behind)
	}
	switch {
	case err == nil:
		s.Ahead, s.Behind = ahead, behind
	case b.Laid: // nothing was committed yet
		s.Branch, s.Ahead, s.Behind = "", 0, 0
	}
	if s.Ahead <= 0 || s.Behind <= 0 {
		return
	}
	ids, err := b.refs().run(ctx, "", "rev-parse", "refs/heads/"+s.Branch+"^{commit}", "HEAD^{commit}")
	if f := strings.Fields(ids); err == nil && len(f) == 2 {
		s.Merged = b.merges().takenBy(ctx, f[0], f[1:])
	}
}
