package hidden

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// Git forgets nothing: a secret that was committed once is in its objects, which sandboxes
// read, although the file is hidden or was removed long ago. Going through the history takes
// time, so it is done while the sandbox runs, once for each commit that is checked out, and
// the user is told once of each file.

// A Committed is a file that would be hidden, and the commit that added it last.
type Committed struct {
	Path   string `json:"path"`
	Commit string `json:"commit"`
	Rule   string `json:"rule"`
	From   string `json:"from"`
}

// maxCommitted bounds the list: whoever has more has read enough.
const maxCommitted = 1000

// InHistory lists the files in the history of a repository that would be hidden. cut
// says that there was no time for all of it, or that there are more.
func InHistory(ctx context.Context, r *git.Repository, m sandbox.Masks, limit time.Duration) (list []Committed, cut bool, err error) {
	own, wish := rules(m)
	set := mask.NewSet(own, wish, "")
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list = []Committed{}
	seen := map[string]bool{}
	err = r.Added(timed, func(a git.Addition) bool {
		if seen[a.Path] {
			return true
		}
		// What has to be looked into to tell is not: it would be one object after the other.
		rule := set.Hides(a.Path, false, func(*mask.Rule) bool { return false })
		if rule == nil {
			return true
		}
		seen[a.Path] = true
		list = append(list, Committed{a.Path, a.Commit, rule.String(), rule.From})
		cut = len(list) >= maxCommitted
		return !cut
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return list, true, nil
	}
	return list, cut, err
}

const (
	// lookBackAfter is when a sandbox is taken for one that stays a while.
	lookBackAfter = time.Second
	// lookBackFor is how long the look may take, beside what runs in the sandbox.
	lookBackFor = 20 * time.Second
)

// lookedBack is what is remembered about a repository.
type lookedBack struct {
	At   string   `json:"at"`   // the commit that was checked out, and the masks
	Told []string `json:"told"` // the files that the user knows of
}

// LookBack goes through the history of the sandbox's repository in a while, and tells the
// user what is new. place is where it is kept what the user knows; it may have none.
func (f *Files) LookBack(b *git.Bridge, place func() (dir string, err error)) {
	f.work.Go(func() {
		if !sleep(f.life, lookBackAfter) {
			return
		}
		if dir, err := place(); err == nil {
			f.lookBack(f.life, b, dir)
		}
	})
}

// lookBack does it. A history that cannot be read is no reason to bother anybody.
func (f *Files) lookBack(ctx context.Context, b *git.Bridge, dir string) {
	r, err := b.Repository(ctx)
	if err != nil {
		return
	}
	head := r.Head(ctx)
	if err != nil || head == "" {
		return
	}
	rules, _ := json.Marshal(f.sb.Masks.Rules) // texts always can be
	at := head + " " + sum(string(rules))
	file := filepath.Join(dir, sum(r.Common)+".json")
	was := recall[lookedBack](file)
	if was.At == at {
		return
	}
	list, _, err := InHistory(ctx, r, f.sb.Masks, lookBackFor)
	if err != nil {
		return
	}
	is := lookedBack{At: at}
	for _, c := range list {
		is.Told = append(is.Told, c.Path)
	}
	fresh := slices.DeleteFunc(list, func(c Committed) bool { return slices.Contains(was.Told, c.Path) })
	if len(fresh) == 0 {
		remember(file, is)
		return
	}
	f.host.Once(fmt.Sprintf("%s can be read in git's history, such as %s of commit %.12s: see 'coffer masks --history'",
		committedFiles(len(fresh)), fresh[0].Path, fresh[0].Commit), func() { remember(file, is) })
}

func committedFiles(n int) string {
	if n == 1 {
		return "a committed file that is to be hidden"
	}
	return fmt.Sprintf("%d committed files that are to be hidden", n)
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// maxRemembered bounds such a file.
const maxRemembered = 8 << 20

// recall reads what was remembered in a file; what cannot be read was not.
func recall[T any](file string) T {
	var nothing, was T
	data, err := safepath.ReadOwn(file, maxRemembered)
	if err != nil || json.Unmarshal(data, &was) != nil {
		return nothing
	}
	return was
}

// remember writes it. What cannot be remembered is told again.
func remember[T any](file string, is T) {
	data, err := json.Marshal(is)
	if err != nil || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	_ = safepath.File{Path: file}.Write(data)
}
