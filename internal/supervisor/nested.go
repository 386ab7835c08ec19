package supervisor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// Git runs what a repository's config and hooks name, also that of one further down in a
// workspace, as soon as the user, an editor or a prompt asks git about a file there. So those
// that were there before the sandbox are read-only inside.
//
// One that is made while a sandbox runs cannot be: git inside has made it, most often, and
// needs it. The user is told, and it is remembered, so that who has fetched something in one
// run can fetch again, or remove it, in the next.

// nested are the repositories below the places of the user's own.
type nested struct {
	mu    sync.Mutex
	known map[mask.Which]bool
	made  map[string][]repository // by tree
	told  int
	kept  []string // those that are locked, by their paths on the host
	last  []string // lines about what was found when nothing ran any more
}

// repository is one that appeared while a sandbox ran.
type repository struct {
	Path string `json:"path"`
	mask.Which
}

// remembered is what is known of a tree.
type remembered struct {
	Made []repository `json:"made"`
	Told string       `json:"told"` // which locked ones the user knows of
}

const (
	// mostNested is how many are told of by name.
	mostNested = 3
	// maxMade is how many are remembered for each tree: the latest.
	maxMade = 1000
	// lookFor is how long the end of a sandbox may be held up.
	lookFor = 2 * time.Second
)

// protectNested lists what has to stay as it is of the repositories that were found in a tree.
func (s *Supervisor) protectNested(one *shown, found []mask.Found) (locked []string) {
	if len(found) == 0 || !one.stays {
		return nil
	}
	s.nested.mu.Lock()
	defer s.nested.mu.Unlock()
	if s.nested.known == nil {
		s.nested.known = map[mask.Which]bool{}
	}
	theirs := s.remembered(one).theirs()
	for _, f := range found {
		s.nested.known[f.Which] = true
		if !theirs[f.Which] && s.Sandbox.Git.Nested != sandbox.NestedOpen {
			s.nested.kept = append(s.nested.kept, filepath.Join(one.tree.Root, filepath.Dir(f.Path)))
			locked = append(locked, rootfs.NestedGit(one.tree.Root, f.Path)...)
		}
	}
	return locked
}

// repositories hears of those in a tree while the sandbox runs.
func (s *Supervisor) repositories(one *shown) func(mask.Found) {
	if !one.stays {
		return nil
	}
	return func(f mask.Found) { s.appeared(one, f, s.notices.once) }
}

// appeared notes a repository that is seen while the sandbox runs.
func (s *Supervisor) appeared(one *shown, f mask.Found, tell func(string)) {
	s.nested.mu.Lock()
	defer s.nested.mu.Unlock()
	if s.nested.known[f.Which] {
		return
	}
	if s.nested.known == nil {
		s.nested.known = map[mask.Which]bool{}
	}
	if s.nested.made == nil {
		s.nested.made = map[string][]repository{}
	}
	s.nested.known[f.Which] = true
	all := append(s.nested.made[one.tree.Root], repository{f.Path, f.Which})
	for ; len(all) > maxMade; all = all[1:] { // who makes and removes them all the time must not fill our memory
		delete(s.nested.known, all[0].Which)
	}
	s.nested.made[one.tree.Root] = all
	switch s.nested.told++; {
	case s.nested.told <= mostNested:
		tell(fmt.Sprintf("a git repository was made in %s; check its config and hooks before you run git there, as they can start programs",
			filepath.Join(one.tree.Root, filepath.Dir(f.Path))))
	case s.nested.told == mostNested+1:
		tell("more git repositories were made than are named here")
	}
}

// lookForNested looks for what was made last, and remembers all of it. Nothing runs any more.
func (s *Supervisor) lookForNested(ctx context.Context) {
	if s.masks.life == nil {
		return // nothing ever ran
	}
	ctx, stop := context.WithTimeout(ctx, lookFor)
	defer stop()
	trees := s.masks.trees()
	if len(trees) > 0 && s.fleeting() { // it may have ended before it was said
		s.warnNested(trees[0], s.lastWord)
	}
	for _, one := range trees {
		if one.stays {
			s.lookLast(ctx, one)
			s.rememberMade(one)
		}
	}
}

// lookLast looks through a tree. If that is too large the watch has seen most of it, but a program
// may have made it so, and waited with a repository for its last moment.
func (s *Supervisor) lookLast(ctx context.Context, one *shown) {
	found, err := one.tree.Repositories(ctx)
	for _, f := range found {
		s.appeared(one, f, s.lastWord)
	}
	if err != nil {
		s.nested.mu.Lock()
		defer s.nested.mu.Unlock()
		s.lastWord(fmt.Sprintf("%s is too large to look through all of it for git repositories that were made in the last moment", one.tree.Root))
	}
}

// lastWord is for who has the lock.
func (s *Supervisor) lastWord(line string) { s.nested.last = append(s.nested.last, line) }

// LastWords are lines for the user that nobody has heard, and those about what was found when the
// sandbox had ended.
func (s *Supervisor) LastWords() []string {
	s.nested.mu.Lock()
	defer s.nested.mu.Unlock()
	return append(s.notices.left(), s.nested.last...)
}

// madeFile is where it is remembered what appeared in a tree.
func (s *Supervisor) madeFile(one *shown) string {
	return filepath.Join(filepath.Dir(filepath.Dir(s.Sandbox.Dir())), "repositories", sum(one.tree.Root)+".json")
}

// rememberMade keeps what appeared in a tree, with what is still there of earlier times. A
// repository that is forgotten is read-only the next time.
func (s *Supervisor) rememberMade(one *shown) {
	s.nested.mu.Lock()
	defer s.nested.mu.Unlock()
	fresh := s.nested.made[one.tree.Root]
	if len(fresh) == 0 {
		return
	}
	was := s.remembered(one)
	all := slices.DeleteFunc(append(was.Made, fresh...), func(r repository) bool { return one.tree.Gone(r.Path) })
	was.Made = all[max(0, len(all)-maxMade):]
	remember(s.madeFile(one), was)
}

func (s *Supervisor) remembered(one *shown) remembered { return recall[remembered](s.madeFile(one)) }

// theirs are those that sandboxes have made. One whose file system does not say when it was born is
// none: the user's next one may have its number.
func (r remembered) theirs() map[mask.Which]bool {
	all := map[mask.Which]bool{}
	for _, one := range r.Made {
		if one.Born != 0 {
			all[one.Which] = true
		}
	}
	return all
}

// warnNested tells the user which repositories are locked, once for as long as they are the same.
func (s *Supervisor) warnNested(one *shown, tell func(string)) {
	s.nested.mu.Lock()
	defer s.nested.mu.Unlock()
	if len(s.nested.kept) == 0 {
		return
	}
	was, is := s.remembered(one), sum(strings.Join(s.nested.kept, "\n"))
	if was.Told == is {
		return
	}
	was.Told = is
	remember(s.madeFile(one), was)
	tell("other git repositories are read-only for git inside: " + ui.Few(s.nested.kept) + "; to commit to one, start there; to open all: git.nested = \"open\" in your config")
}
