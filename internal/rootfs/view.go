package rootfs

// The ways a workspace can be shown.
const (
	Direct      = "direct"   // writes land, .git is out of reach
	CopyOnWrite = "cow"      // nothing changes outside until it is applied
	None        = "none"     // no workspace
	Worktree    = "worktree" // a git worktree of the sandbox's own, with a private git directory
)

// A View says what to show.
type View struct {
	Sandbox   string // the sandbox's folder on the host
	Image     string // the tree that has the system directories; "" for the host's own
	Home      string // the user's home, the same path inside and outside
	Workspace string // a directory without symbolic links in its path; "" for none
	Mode      string // Direct, CopyOnWrite or None
	Hostname  string
	Passwd    string   // replaces /etc/passwd when not empty
	Group     string   // replaces /etc/group when not empty
	Resolver  string   // replaces /etc/resolv.conf when not empty
	GitConfig string   // replaces /etc/gitconfig when not empty
	Login     string   // the content of /etc/profile, which is made to keep PATH when not empty
	Program   string   // coffer itself, which is also sudo inside
	Hide      []string // host directories that must not be seen even in a workspace
	Volatile  bool     // the layers go away with the sandbox
	Nesting   bool     // containers inside are allowed
	// PrivateGit says that the workspace has no repository: its .git is an empty
	// directory that the caller made, and the sandbox's own one is laid over it.
	PrivateGit bool
	// Mounts are other places of the host to show, outer before inner. Their targets
	// are neither the system's nor in the workspace.
	Mounts []Mount
	// Caches are directories of the host under layers of the sandbox's own.
	Caches []Cache
	// Profile is the text of ProfileFile, if there is to be one.
	Profile string
	// Programs are more names by which Program is known inside.
	Programs []string
	// Git is the sandbox's own git directory, see package git.
	Git *Git
	// Includes are worktrees of other repositories, shown in the workspace.
	Includes []Include
	// Memory, in bytes, and CPUs are limits that programs see; zero without one.
	Memory int64
	CPUs   float64
	// Authority is a certificate, in PEM, that programs inside have to trust; empty for none.
	Authority []byte
	// Masks are places inside that must stay unread.
	Masks Masks
}

// Masks are what of the places shown is hidden, by paths inside, outer before inner.
type Masks struct {
	Hidden []string
	Pinned []string // directories above, which stay where they are
	// Anchored are such directories too, for trees in which programs move things between
	// directories as they please. The first of each is the tree's root.
	Anchored [][2]string
	Locked   []string // files that say what to hide, which stay as they are
}

// A Mount is a place of the host, without symbolic links, and where to show it.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Git says where a sandbox's own git directory is, outside and inside.
type Git struct {
	Dir, At      string // the directory, writable
	File         string // a file to lie over the workspace's .git, which names it; none if At is that
	Host, HostAt string // the host's refs, read-only
	Objects      []string
	ObjectsAt    string // where the host's objects are, numbered, read-only
	Large        string // the host's large files, which are shown beside them; may be empty
	Modules      string // the host's git directories of submodules, read-only; may be empty
	// Submodules are directories of the sandbox's own that lie over the submodules of the workspace,
	// whose paths are below that.
	Submodules []Mount
}

// An Include is a worktree of the sandbox's own, and where to show it.
type Include struct {
	Tree, At string
	Git      *Git
}

// A Cache is a directory of the host that the sandbox sees at Target and changes only for
// itself: an overlay, whose upper layer is the sandbox's own. So no sandbox can plant a
// package for another one, or for the user.
type Cache struct {
	Name           string // of the layer
	Source, Target string
}
