package git

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
)

// A State is what a bridge keeps in the sandbox's folder, out of the sandbox's reach. Its
// methods name refs and places, and read the host's side.
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
	// Upstream: git inside has the user's remote as its own remote "upstream".
	Upstream bool `json:"upstream,omitempty"`
	// Laid: the tree is the user's own, and the private directory lies over its .git; see
	// [Lay]. Admin is that .git, or what it leads to.
	Laid bool `json:"laid,omitempty"`
	// Include is the name of a repository besides the sandbox's own; see [Included].
	Include string `json:"include,omitempty"`
	// Inside is the tree's path inside, if it differs from that outside.
	Inside string `json:"inside,omitempty"`
	// Apart: the read-only part of an included repository has a directory of its own inside.
	Apart bool `json:"apart,omitempty"`
	// Over: the private directory lies over .git as a directory, not as a file that names it.
	Over bool `json:"over,omitempty"`
}

// Refs on the host. The user sees branches; what was last seen inside, and what was last
// synced, are kept apart.

func (s *State) branchRef() string { return "refs/heads/" + s.Branch }
func (s *State) own() string       { return "refs/coffer/" + s.ID + "/" }
func (s *State) incoming() string  { return s.own() + "heads/" }
func (s *State) synced() string    { return s.own() + "synced/" }
func (s *State) others() string    { return "refs/heads/coffer/" + s.Name + "@" }
func (s *State) pushed() string    { return s.own() + "pushed/" }

// public is the host's name of a branch inside. No name of a sandbox contains an @, so no
// other sandbox has this branch.
func (s *State) public(inside string) string {
	if inside == s.Branch {
		return s.branchRef()
	}
	return s.others() + inside
}

// inside is the inverse of public.
func (s *State) inside(public string) (string, bool) {
	if public == s.branchRef() {
		return s.Branch, true
	}
	return strings.CutPrefix(public, s.others())
}

// users reports whether a branch or tag is no sandbox's.
func (s *State) users(ref string) bool {
	_, ours := s.inside(ref)
	return !ours && !strings.HasPrefix(ref, "refs/heads/coffer/")
}

// kept is the ref that holds the commit of a checkpoint.
func (s *State) kept(n int) string { return s.own() + "checkpoints/" + strconv.Itoa(n) }

// aside is where a stash or a tag is for the user, below refs/.
func (s *State) aside(kind, name string) string {
	return "coffer/" + strings.TrimSuffix(kind, "/") + "/" + s.Name + "/" + name
}

// why is the reflog message of a ref that moves because it moved inside.
func (s *State) why() string { return "coffer: from sandbox " + s.Name }

// madeFor is the reflog message of the first ref, before the sandbox's folder.
const madeFor = "coffer: for "

// Places inside.

// At is the path of the tree.
func (s *State) At() string {
	if s.Inside != "" {
		return s.Inside
	}
	return s.Tree
}

// InsideDir is the path of the private directory.
func (s *State) InsideDir() string {
	switch {
	case s.Over:
		return filepath.Join(s.Tree, ".git")
	case s.Include != "":
		return rootfs.Own + "/include/" + s.Include + "/git"
	}
	return rootfs.Own + "/git"
}

// insideShown is the path of what is read-only inside.
func (s *State) insideShown() string {
	switch {
	case s.Apart:
		return rootfs.Own + "/included/" + s.Include
	case s.Include != "":
		return rootfs.Own + "/include/" + s.Include
	}
	return rootfs.Own
}

func (s *State) insideObjects() string { return s.insideShown() + "/objects" }
func (s *State) insideHost() string    { return s.insideShown() + "/host.git" }
func (s *State) pointerText() string   { return "gitdir: " + s.InsideDir() + "\n" }

// Workspace is the sandbox's directory in which an included repository is shown.
func (s *State) Workspace() string {
	return strings.TrimSuffix(s.Inside, "/"+includeAt+"/"+s.Include)
}

// pushURL is where git inside pushes to, and pushPath its path.
func (s *State) pushURL() string { return "http://" + link.AboutName + s.pushPath() }

func (s *State) pushPath() string {
	if s.Include != "" {
		return "/include/" + s.Include + "/git"
	}
	return "/git"
}

// Words for the user.

// title names the bridge in a sentence, and Words in a command.
func (s *State) title() string {
	if s.Include != "" {
		return fmt.Sprintf("repository %s of sandbox %s", s.Include, s.Name)
	}
	return "sandbox " + s.Name
}

func (s *State) Words() string {
	if s.Include != "" {
		return s.Name + " --repo " + s.Include
	}
	return s.Name
}

// Where follows a git command: " in DIR" for an included repository, where a branch of the
// same name may be in the user's current one.
func (s *State) Where() string {
	switch {
	case s.Include == "":
		return ""
	case s.Start == "": // a bare one
		return " in " + s.Common
	}
	return " in " + s.Start
}

// place is the repository as the user knows it.
func (s *State) place() string { return placeOf(s.Common) }

func placeOf(common string) string {
	if filepath.Base(common) == ".git" {
		return filepath.Dir(common)
	}
	return common
}

// removal is the command that removes it, up to its last words.
func (s *State) removal() string {
	if s.Include != "" {
		return fmt.Sprintf("take it out with 'coffer uninclude %s -m %s", s.Include, s.Name)
	}
	return "remove the sandbox with 'coffer rm " + s.Name
}

// fetchHint is the way to commits that are only inside.
func (s *State) fetchHint() string {
	return fmt.Sprintf("sync them with 'coffer exec -m %s -- true'", s.Name)
}
