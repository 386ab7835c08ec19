package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// A sandbox can have worktrees of more repositories than its own. Each has a bridge of
// its own, in a folder of its own below the sandbox's:
//
//	<sandbox>/include/<name>/git.json              as that of the sandbox itself
//	<sandbox>/include/<name>/git, host.git, hooks
//	<sandbox>/include/<name>/workspace/<name>      the worktree
//	<sandbox>/include/.gone-<name>                 being removed
//
// The worktree is not in the workspace, where a program could put something else in its
// place before the host looks. It is shown there, inside: at .coffer/include/<name>.
//
// Whoever includes or takes away holds the lock of the folder. One that says nothing of
// its worktree's own directory was never completed.
const (
	includeName = "include"
	gonePrefix  = ".gone-"
	includeAt   = rootfs.IncludeAt
)

// includable are the names that an included repository can have.
var includable = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

// IncludeName is the name that a repository is included by if the user says none.
func (r *Repository) IncludeName() string {
	dir := r.Top
	if dir == "" || filepath.Base(r.Common) == ".git" {
		dir = placeOf(r.Common)
	}
	name := strings.TrimSuffix(filepath.Base(dir), ".git")
	name = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-")
	return strings.TrimLeft(name, ".-")
}

// IncludeOptions say what is included, and where.
type IncludeOptions struct {
	ID, Name  string // the sandbox's
	Folder    string // the sandbox's
	Workspace string // the sandbox's, as it is seen inside
	Layer     string // where what programs write there lands, if that is elsewhere
	As        string // the name that it is included by
	Branch    string // none is coffer/<name>
	Base      string // a commit, from [Repository.Base]
}

// Include makes a worktree of another repository for a sandbox. It is seen inside when the
// sandbox is started the next time. The caller holds the lock.
func (r *Repository) Include(ctx context.Context, o IncludeOptions) (*Bridge, error) {
	if !includable.MatchString(o.As) {
		return nil, ui.Error(fmt.Sprintf("a repository cannot be included as %q", o.As), "choose another name with --as, of letters, digits, dots and dashes")
	}
	if b, err := Open(o.Folder); err == nil && b.Common == r.Common {
		return nil, ui.Error(fmt.Sprintf("sandbox %s works on %s already", o.Name, b.place()), "include another repository")
	}
	for _, b := range Included(o.Folder) {
		switch {
		case b.Common == r.Common:
			return nil, ui.Error(fmt.Sprintf("%s is included in sandbox %s already, as %s", b.place(), o.Name, b.Include), fmt.Sprintf("take it out with 'coffer uninclude %s -m %s'", b.Include, o.Name))
		case b.Include == o.As:
			return nil, ui.Error(fmt.Sprintf("sandbox %s includes another repository as %s: %s", o.Name, o.As, b.place()), "choose another name with --as")
		}
	}
	for _, dir := range []string{o.Workspace, o.Layer} {
		if err := freePlace(dir, o.As); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(o.Folder, includeName, o.As)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	b, err := r.Create(ctx, Options{
		ID: o.ID, Name: o.Name, Folder: dir, Tree: filepath.Join(dir, "workspace", o.As), Branch: o.Branch, Base: o.Base,
		Start: r.Top, Include: o.As, Inside: filepath.Join(o.Workspace, includeAt, o.As),
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

// CheckPlace looks whether there is nothing but directories, if anything, where a worktree is
// to be shown in the workspace, or in the layer over it: a program inside can put something
// else there.
func (s *State) CheckPlace(workspace, layer string) error {
	for _, dir := range []string{workspace, layer} {
		root, err := openPlace(dir)
		if err != nil {
			return err
		}
		if root == nil {
			continue
		}
		err = checkPlace(root, s.Include)
		root.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// openPlace opens a workspace, or a layer, of which there need not be one.
func openPlace(dir string) (*os.Root, error) {
	if dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return root, err
}

func checkPlace(root *os.Root, name string) error {
	at := ""
	for part := range strings.SplitSeq(includeAt+"/"+name, "/") {
		at = filepath.Join(at, part)
		info, err := root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode()&fs.ModeCharDevice != 0: // in a layer: something was removed there
			return nil
		case !info.IsDir():
			return ui.Error(fmt.Sprintf("%s is not a directory, so no repository can be shown there", filepath.Join(root.Name(), at)), "look at it, and remove it")
		}
	}
	return nil
}

// freePlace is CheckPlace for one that is not there yet: nothing shall be covered.
func freePlace(workspace, name string) error {
	root, err := openPlace(workspace)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	if err := checkPlace(root, name); err != nil {
		return err
	}
	dir, err := root.OpenFile(filepath.Join(includeAt, name), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer dir.Close()
	if names, _ := dir.Readdirnames(1); len(names) > 0 {
		return ui.Error(fmt.Sprintf("%s is not empty", filepath.Join(workspace, includeAt, name)), "look at it, and remove it; or choose another name with --as")
	}
	return nil
}

// Includes says whether a sandbox has a place for repositories besides its own.
func Includes(folder string) bool { return isDir(filepath.Join(folder, includeName)) }

// Included opens the bridges of the repositories that a sandbox includes, in the order of
// their names.
func Included(folder string) (all []*Bridge) {
	entries, err := os.ReadDir(filepath.Join(folder, includeName))
	if err != nil {
		return nil // most have none
	}
	for _, e := range entries {
		if b, err := Open(filepath.Join(folder, includeName, e.Name())); err == nil && b.Admin != "" && b.Include == e.Name() {
			all = append(all, b)
		}
	}
	return all
}

// OpenIncluded opens one of them.
func OpenIncluded(folder, name string) (*Bridge, error) {
	all := Included(folder)
	if i := slices.IndexFunc(all, func(b *Bridge) bool { return b.Include == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, b := range all {
		names = append(names, b.Include)
	}
	if len(names) == 0 {
		return nil, ui.Error("the sandbox includes no other repository", "include one with 'coffer include --repo PATH'")
	}
	return nil, ui.Error(fmt.Sprintf("the sandbox includes no repository %q", name), "it includes "+strings.Join(names, ", "))
}

// IncludedNames are those of the repositories that a sandbox includes, without a look at them.
func IncludedNames(folder string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(folder, includeName))
	if err != nil {
		return nil // most have none
	}
	for _, e := range entries {
		if includable.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// Uninclude takes a repository out of a sandbox that does not run. The caller holds the lock.
// The rename takes it out; what a killed process leaves after that, [LockIncluded] removes.
func (b *Bridge) Uninclude(ctx context.Context, branches bool, purge func(dir string) error) error {
	gone := filepath.Join(filepath.Dir(b.dir), gonePrefix+b.Include)
	if err := os.Rename(b.dir, gone); err != nil {
		return err
	}
	if err := b.Forget(ctx, branches); err != nil {
		return err
	}
	return purge(gone)
}

// RemovePlace removes the directories of a workspace, or of the layer over it, that an included
// repository was shown at, as far as they are empty.
func (s *State) RemovePlace(dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	for at := filepath.Join(includeAt, s.Include); at != "."; at = filepath.Dir(at) {
		info, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the sandbox took it away itself
		}
		if err != nil || !info.IsDir() || root.Remove(at) != nil {
			return
		}
	}
}

// IgnoreIncluded has git inside ignore what is included.
func (b *Bridge) IgnoreIncluded() { _ = b.private().exclude([]string{"/" + includeAt + "/"}) }
