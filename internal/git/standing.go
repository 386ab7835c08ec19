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
	// Merged says that HEAD has what the commits ahead change, by other commits.
	Merged bool `json:"merged,omitempty"`
	// Dirty counts the files of the worktree with changes that are in no commit, or those
	// that wait to be applied; -1 if that could not be told in time. In a directory of the
	// user's, nobody looks.
	Dirty *int `json:"dirty,omitempty"`
}

// place is where the user finds the repository.
func (b *Bridge) place() string {
	if filepath.Base(b.Common) == ".git" {
		return filepath.Dir(b.Common)
	}
	return b.Common
}

// Standings says how several sandboxes stand. Git is asked about each repository once, and
// never about a directory that a sandbox can write.
func Standings(ctx context.Context, all []*Bridge) map[*Bridge]*Standing {
	by, result := map[string][]*Bridge{}, map[*Bridge]*Standing{}
	for _, b := range all {
		result[b] = &Standing{Repository: b.place(), Branch: b.current()}
		by[b.Common] = append(by[b.Common], b)
	}
	for _, list := range by {
		counts := compare(ctx, list)
		for _, b := range list {
			s := result[b]
			if c, ok := counts["refs/heads/"+s.Branch]; ok {
				s.Ahead, s.Behind = c[0], c[1]
			} else if b.Laid {
				s.Branch = "" // nothing was committed yet
			} else {
				s.Ahead, s.Behind = -1, -1
			}
		}
		mergedThere(ctx, list, result)
	}
	return result
}

// mergedThere says of those sandboxes of one repository that have parted from HEAD whether they are
// merged there.
func mergedThere(ctx context.Context, list []*Bridge, result map[*Bridge]*Standing) {
	parted := []*Bridge{}
	words := []string{"rev-parse", "HEAD^{commit}"}
	for _, b := range list {
		if s := result[b]; s.Ahead > 0 && s.Behind > 0 {
			parted, words = append(parted, b), append(words, "refs/heads/"+s.Branch+"^{commit}")
		}
	}
	if len(parted) == 0 {
		return
	}
	out, err := list[0].refs().run(ctx, "", words...)
	ids := strings.Fields(out)
	if err != nil || len(ids) != len(words)-1 {
		return
	}
	eachOf(parted, func(i int, b *Bridge) { result[b].Merged = b.takenBy(ctx, ids[i+1], ids[:1]) })
}

// eachOf does something for each of several sandboxes, for some at a time.
func eachOf(list []*Bridge, do func(i int, b *Bridge)) {
	const atOnce = 8
	var asking sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, b := range list {
		places <- struct{}{}
		asking.Go(func() {
			defer func() { <-places }()
			do(i, b)
		})
	}
	asking.Wait()
}

// current is the branch that is checked out in the worktree outside.
func (b *Bridge) current() string {
	if b.Laid {
		return b.Branch
	}
	head, _ := firstLine(filepath.Join(b.Admin, "HEAD"))
	if ref, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok {
		return ref
	}
	return b.Branch
}

// compare counts, for the branches of sandboxes of one repository, commits that HEAD has not
// and commits that HEAD has besides.
func compare(ctx context.Context, list []*Bridge) map[string][2]int {
	args := []string{"for-each-ref", "--format=%(refname) %(ahead-behind:HEAD)"}
	for _, b := range list {
		args = append(args, "refs/heads/"+b.current())
	}
	counts := map[string][2]int{}
	out, err := list[0].refs().run(ctx, "", args...)
	if err != nil { // git before 2.41, or no HEAD
		var mu sync.Mutex
		eachOf(list, func(_ int, b *Bridge) {
			ref, c := "refs/heads/"+b.current(), [2]int{}
			out, err := b.refs().text(ctx, "rev-list", "--count", "--left-right", ref+"...HEAD", "--")
			mu.Lock()
			defer mu.Unlock()
			if _, scan := fmt.Sscan(out, &c[0], &c[1]); err == nil && scan == nil {
				counts[ref] = c
			}
		})
		return counts
	}
	for line := range strings.Lines(out) {
		var ref string
		var c [2]int
		if _, err := fmt.Sscan(line, &ref, &c[0], &c[1]); err == nil {
			counts[ref] = c
		}
	}
	return counts
}
