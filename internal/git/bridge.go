package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A State is what has to be known about a bridge while nobody uses it. It is kept in
// the sandbox's folder, out of the sandbox's reach.
type State struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Common string `json:"common"` // the repository's git directory
	Admin  string `json:"admin"`  // the worktree's own directory below it
	Tree   string `json:"tree"`   // the working tree
	Start  string `json:"start"`  // the directory in which the sandbox was made
	Prefix string `json:"prefix"` // where in the tree programs start, relative
	Branch string `json:"branch"` // without refs/heads/
	Base   string `json:"base"`   // the commit it started from
	Format string `json:"format"`
	// Objects are the host's directories of objects that the sandbox sees.
	Objects []string `json:"objects"`
	// Upstream says that git inside knows the user's remote as its own remote "upstream".
	Upstream bool `json:"upstream,omitempty"`
	// Laid says that the tree is the user's own, over whose .git the private directory
	// lies; see [Lay]. Admin is that .git, or what it leads to.
	Laid bool `json:"laid,omitempty"`
	// Include is the name of a repository besides the sandbox's own; see [Included].
	Include string `json:"include,omitempty"`
	// Inside is where the tree is inside, if that is not its place outside.
	Inside string `json:"inside,omitempty"`
	// Apart says that what can only be read of it is inside apart from what can be written.
	Apart bool `json:"apart,omitempty"`
	// Over says that it lies there as a directory, and not as a file that names it.
	Over bool `json:"over,omitempty"`
}

// A Bridge joins a sandbox's git directory with the host's.
type Bridge struct {
	State
	dir   string // the sandbox's folder
	begun bool   // our refs are in the user's repository
	// memory is what the private directory starts with, if it is not on a disk.
	memory    *memory
	stayed    []string // branches that were left when it was forgotten
	leftAside []Kept   // and stashes and tags
	dropped   []string // those that were deleted

	showing   sync.Mutex // held by who shows the host's refs inside
	shown     string     // as they were last shown
	refPlaces []string   // where they are, and how these places looked then; see RefreshMoved
	refStamp  string

	tooMuch  string          // the refs inside when their commits were too much to fetch
	cameOut  []string        // branches that came out of a directory of the user's
	cameBy   []string        // stashes and tags that came over
	tooHeavy map[string]bool // commits that are; see heavy

	mu    sync.Mutex
	ready string // the branch, if something came out on it and no other is checked out inside
	seen  seen
}

// seen is what the refs looked like on both sides when they were last brought over, and
// what there was to say about it: it stays true for as long as nothing changes.
type seen struct {
	Inside  string   `json:"inside"`
	Outside string   `json:"outside"`
	Notes   []string `json:"notes,omitempty"`
	once    []string // those of the notes that nobody needs to hear twice
}

const (
	stateName = "git.json"
	seenName  = "git.seen"
)

// maxState bounds the file.
const maxState = 1 << 20

// Open reads the bridge of the sandbox in a folder. One without is fs.ErrNotExist.
func Open(dir string) (*Bridge, error) {
	b, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	bridge := &Bridge{dir: dir}
	if len(b) > maxState {
		return nil, fmt.Errorf("%s is too large", filepath.Join(dir, stateName))
	}
	if err := json.Unmarshal(b, &bridge.State); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, stateName), err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, seenName)); err == nil {
		_ = json.Unmarshal(data, &bridge.seen) // without it, more is looked at, not less
	}
	return bridge, nil
}

func (b *Bridge) save() error { return b.put(stateName, &b.State) }

// remember notes what was brought over.
// What is said only once is not written down.
func (b *Bridge) remember(inside, outside string, notes []string, once ...string) error {
	now := seen{Inside: inside, Outside: outside, Notes: notes}
	b.mu.Lock()
	b.seen = seen{inside, outside, append(slices.Clone(notes), once...), once}
	b.mu.Unlock()
	return b.put(seenName, &now)
}

// Once says whether a note of the last [Bridge.Sync] is news, and not a state that lasts.
func (b *Bridge) Once(note string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.seen.once, note)
}

func (b *Bridge) put(name string, v any) error { return put(filepath.Join(b.dir, name), v) }

// put writes a file of the sandbox's folder, by rename.
func put(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return safepath.File{Path: path, Alone: true}.Write(append(data, '\n'))
}

// Where things are inside.
func (b *Bridge) insideObjects() string { return b.insideShown() + "/objects" }
func (b *Bridge) insideHost() string    { return b.insideShown() + "/host.git" }

// InsideDir is the private directory's path inside.
func (b *Bridge) InsideDir() string {
	if b.Over {
		return filepath.Join(b.Tree, ".git")
	}
	return b.insidePlace() + "/git"
}

// Folder is where the bridge itself is kept.
func (b *Bridge) Folder() string { return b.dir }

// At is where the tree is inside.
func (b *Bridge) At() string {
	if b.Inside != "" {
		return b.Inside
	}
	return b.Tree
}

func (b *Bridge) private() string { return filepath.Join(b.dir, "git") }
func (b *Bridge) export() string  { return filepath.Join(b.dir, "host.git") }
func (b *Bridge) hooks() string   { return filepath.Join(b.dir, "hooks") }
func (b *Bridge) pointer() string { return filepath.Join(b.dir, "gitfile") }

// View says what of the bridge the sandbox sees, and checks that the tree is still the
// worktree that it was.
func (b *Bridge) View() (*rootfs.Git, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	view := &rootfs.Git{
		Dir: b.private(), At: b.InsideDir(), Host: b.export(), HostAt: b.insideHost(),
		Objects: b.Objects, ObjectsAt: b.insideObjects(),
	}
	if !b.Over {
		view.File = b.pointer()
	}
	if b.memory != nil {
		view.Files, view.Export, view.FileData = b.memory.private, b.memory.export, b.pointerText()
		if index := filepath.Join(b.Admin, "index"); isFile(index) {
			view.Index = index
		}
	}
	// What large files are kept in, git-lfs looks for beside the alternates.
	if large := filepath.Join(b.Common, "lfs", "objects"); isRealDir(large) {
		view.Large = large
	}
	// The git directories of submodules that are checked out in the tree.
	if modules := filepath.Join(b.Common, "modules"); b.Over && isRealDir(modules) {
		view.Modules = modules
	}
	return view, nil
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// ErrTreeGone says that somebody removed the worktree.
var ErrTreeGone = errors.New("its worktree is gone")

// check says what is wrong with the host's side.
func (b *Bridge) check() error {
	info, err := os.Lstat(b.Tree)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ui.Hint(fmt.Errorf("%s: %w", b.title(), ErrTreeGone), "%s'; the branch %s stays", b.removal(), b.Branch)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", b.Tree)
	case b.Laid:
		return nil
	case b.Admin == "": // whoever made it was killed
		return ui.Error(fmt.Sprintf("sandbox %s was never completed", b.Name), "remove it with 'coffer rm --force "+b.Name+"'")
	}
	if _, err := os.Lstat(b.Common); errors.Is(err, fs.ErrNotExist) {
		return ui.Error(fmt.Sprintf("%s belongs to %s, which is not there any more", b.title(), b.place()),
			fmt.Sprintf("move the repository back; or %s --force', which loses what is nowhere else", b.removal()))
	}
	line, err := firstLine(filepath.Join(b.Tree, ".git"))
	if err != nil {
		return ui.Hint(fmt.Errorf("the worktree's .git file: %w", err), "restore it with 'git worktree repair %s' in the repository", b.Tree)
	}
	back, err := firstLine(filepath.Join(b.Admin, "gitdir"))
	if err != nil || line != "gitdir: "+b.Admin || filepath.Clean(back) != filepath.Join(b.Tree, ".git") {
		return ui.Hint(fmt.Errorf("%s is no longer a worktree of %s", b.Tree, b.Common), "restore it with 'git worktree repair %s' in the repository", b.Tree)
	}
	return nil
}

// removal says how to get rid of it, up to the end of the command.
func (b *Bridge) removal() string {
	if b.Include != "" {
		return fmt.Sprintf("take it out with 'coffer uninclude %s -m %s", b.Include, b.Name)
	}
	return "remove the sandbox with 'coffer rm " + b.Name
}

// firstLine reads a small file, which must be one.
func firstLine(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return "", fmt.Errorf("%s is not a small file", path)
	}
	b, err := os.ReadFile(path)
	return strings.TrimRight(string(b), "\n"), err
}

// refs runs git on the host's refs and objects.
func (b *Bridge) refs() host {
	return host{dir: "/", where: []string{"--git-dir=" + b.Common}}
}

// tree runs git on the worktree, with the host's index.
func (b *Bridge) tree() host {
	return host{dir: b.Tree, where: []string{"--git-dir=" + b.Admin, "--work-tree=" + b.Tree}, locks: true}
}

// Names of refs on the host. Those of the user to see are branches; what was last seen
// inside, and what was last brought over, are kept apart.
func (b *Bridge) branchRef() string { return "refs/heads/" + b.Branch }
func (b *Bridge) own() string       { return "refs/coffer/" + b.ID + "/" }
func (b *Bridge) incoming() string  { return b.own() + "heads/" }
func (b *Bridge) synced() string    { return b.own() + "synced/" }
func (b *Bridge) others() string    { return "refs/heads/coffer/" + b.Name + "@" }

// public is the host's name of a branch inside. A sandbox's name has no @ in it, so
// nobody else's branch is called so.
func (b *Bridge) public(inside string) string {
	if inside == b.Branch {
		return b.branchRef()
	}
	return b.others() + inside
}

// inside is public's counterpart.
func (b *Bridge) inside(public string) (string, bool) {
	if public == b.branchRef() {
		return b.Branch, true
	}
	return strings.CutPrefix(public, b.others())
}
