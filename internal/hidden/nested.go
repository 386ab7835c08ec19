package hidden

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
// needs it. The user is told, and it is remembered, so that a later run can fetch in it again, or
// remove it.

// nested are the repositories below the places of the user's own.
type nested struct {
	mu     sync.Mutex
	known  map[mask.Which]bool
	made   map[string][]repository // by tree
	told   int
	locked []string // by their paths on the host

	settings []string // which are read-only, too
}

// A repository is one that appeared while a sandbox ran.
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
	// mostNested is how many are named to the user.
	mostNested = 3
	// maxMade is how many are remembered for each tree: the latest.
	maxMade = 1000
	// lookFor is how long the end of a sandbox may be held up.
	lookFor = 2 * time.Second
)

// protectNested lists what must stay as it is of the repositories that were found in a tree.
func (f *Files) protectNested(t *tree, found []mask.Found) (locked []string) {
	if len(found) == 0 {
		return nil
	}
	f.nested.mu.Lock()
	defer f.nested.mu.Unlock()
	theirs := f.remembered(t).theirs()
	for _, r := range found {
		f.nested.note(r.Which)
		if !r.Bare && !theirs[r.Which] && f.sb.Git.Nested != sandbox.NestedOpen {
			f.nested.locked = append(f.nested.locked, filepath.Join(t.Root, filepath.Dir(r.Path)))
			locked = append(locked, rootfs.NestedGit(t.Root, r.Path)...)
		}
	}
	return locked
}

// protectSettings lists what must stay as it is of the settings that were found in a tree: programs
// outside run what they say.
func (f *Files) protectSettings(t *tree, found []string) (locked []string) {
	if f.sb.AllowSettings {
		return nil
	}
	known := map[string]bool{}
	for _, path := range found { // in order
		if !slices.ContainsFunc(rootfs.Above(path), func(dir string) bool { return known[dir] }) {
			known[path], locked = true, append(locked, path)
			f.nested.settings = append(f.nested.settings, filepath.Join(t.Root, path))
		}
	}
	return locked
}

// Settings lists what of a workspace is read-only because it makes programs outside run code.
func (f *Files) Settings() []string { return f.nested.settings }

// note says whether a repository is new. The lock is held.
func (n *nested) note(which mask.Which) bool {
	if n.known[which] {
		return false
	}
	if n.known == nil {
		n.known, n.made = map[mask.Which]bool{}, map[string][]repository{}
	}
	n.known[which] = true
	return true
}

// repositories hears of those in a tree while the sandbox runs.
func (f *Files) repositories(t *tree) func(mask.Found) {
	if !t.stays {
		return nil
	}
	return func(r mask.Found) { f.appeared(t, r) }
}

// appeared notes a repository that is seen while the sandbox runs.
func (f *Files) appeared(t *tree, r mask.Found) {
	n := &f.nested
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.note(r.Which) {
		return
	}
	all := append(n.made[t.Root], repository{r.Path, r.Which})
	for ; len(all) > maxMade; all = all[1:] { // a program may make and remove them all the time
		delete(n.known, all[0].Which)
	}
	n.made[t.Root] = all
	switch n.told++; {
	case n.told <= mostNested:
		f.host.Once(fmt.Sprintf("a git repository was made in %s; check its config and hooks before you run git there, as they can start programs",
			filepath.Join(t.Root, filepath.Dir(r.Path))), nil)
	case n.told == mostNested+1:
		f.host.Once("more git repositories were made than are named here", nil)
	}
}

// lookForNested looks for what was made last, and remembers all of it. If a tree is too large the
// watch has seen most of it, but a program may have made it so, and waited with a repository for
// its last moment.
func (f *Files) lookForNested() {
	ctx, stop := context.WithTimeout(context.Background(), lookFor)
	defer stop()
	if len(f.trees) > 0 && f.sb.Fleeting() { // it may have ended before it was said
		f.warnNested(f.trees[0])
	}
	for _, t := range f.trees {
		if t.stays {
			f.lookLast(ctx, t)
			f.rememberMade(t)
		}
	}
}

func (f *Files) lookLast(ctx context.Context, t *tree) {
	found, err := t.Repositories(ctx)
	for _, r := range found {
		f.appeared(t, r)
	}
	if err != nil {
		f.host.Once(fmt.Sprintf("%s is too large to look through all of it for git repositories that were made in the last moment", t.Root), nil)
	}
}

// madeFile is where it is remembered what appeared in a tree.
func (f *Files) madeFile(t *tree) string {
	return filepath.Join(filepath.Dir(filepath.Dir(f.sb.Dir())), "repositories", sum(t.Root)+".json")
}

// rememberMade keeps what appeared in a tree, with what is still there of earlier times. A
// repository that is forgotten is read-only the next time.
func (f *Files) rememberMade(t *tree) {
	f.nested.mu.Lock()
	defer f.nested.mu.Unlock()
	fresh := f.nested.made[t.Root]
	if len(fresh) == 0 {
		return
	}
	was := f.remembered(t)
	all := slices.DeleteFunc(append(was.Made, fresh...), func(r repository) bool { return t.Gone(r.Path) })
	was.Made = all[max(0, len(all)-maxMade):]
	remember(f.madeFile(t), was)
}

func (f *Files) remembered(t *tree) remembered { return recall[remembered](f.madeFile(t)) }

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

// warnNested tells the user which repositories and settings are locked, once for as long as they are
// the same.
func (f *Files) warnNested(t *tree) {
	f.nested.mu.Lock()
	defer f.nested.mu.Unlock()
	all := slices.Concat(f.nested.locked, f.nested.settings)
	was, is := f.remembered(t), sum(strings.Join(all, "\n"))
	if len(all) == 0 || was.Told == is {
		return
	}
	was.Told = is
	remember(f.madeFile(t), was)
	if len(f.nested.settings) > 0 {
		f.host.Once("files by which your programs outside would run code are read-only inside: "+ui.Few(f.nested.settings)+"; --allow-settings opens them", nil)
	}
	if len(f.nested.locked) == 0 {
		return
	}
	f.host.Once("other git repositories are read-only for git inside: "+ui.Few(f.nested.locked)+"; to commit to one, start there; to open all: git.nested = \"open\" in your config", nil)
}
