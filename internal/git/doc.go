// Package git lets a sandbox have a repository of its own that the host knows as
// a worktree.
//
// Two git directories belong to one working tree. Outside, the tree is an ordinary
// worktree of the user's repository: its .git file names <repository>/worktrees/<x>,
// which no sandbox can write. Inside, another .git file lies over that one and names the
// private git directory, <sandbox>/git, with HEAD, index, refs, config, hooks and stash
// of its own. Its objects are its own too, and behind them, as alternates, the host's,
// read-only. So nothing is copied when a sandbox is made, and inside everything works.
//
//	outside                              inside
//	<tree>/.git → <repository>           <tree>/.git → /.coffer/git
//	refs/heads/coffer/<name>        ←    refs/heads/coffer/<name>
//	refs/heads/coffer/<name>@<b>    ←    refs/heads/<b>
//	objects                         →    /.coffer/objects/0, read-only
//
// The host never runs git on the private directory, because the sandbox writes it: its
// config, hooks and alternates could name any program. Commits come out by one way. Git on
// the host fetches from a git upload-pack that runs inside, checks every object of the pack
// before it stores the pack, and checks that nothing is missing before it moves a ref; see
// [Bridge.Sync]. What the user commits in the tree outside goes in without any transfer,
// because its objects can be seen there already: git inside moves a ref.
//
// A commit comes out like this: inotify tells the supervisor that a ref inside moved (watch.go);
// it calls [Bridge.Sync] with an opener of streams to the guest (sync.go); git on the host
// fetches into a quarantine from git inside (fetch.go, far.go), and what is good is moved among
// the user's objects; refs move (locks.go), and HEAD and index of the worktree follow
// (follow.go).
//
// By hand is done what no git may do: reading HEAD and whether refs moved in the private
// directory, and removing locks there while nothing runs inside (inside.go); and finding
// submodules in an index before git reads it (rootfs.Gitlinks).
//
// The user types git in the tree too, among files that a stranger wrote. The index, the
// config and the hooks that count there are the host's. One thing is left by which git
// would read a git directory among the files: an entry of the index that is a submodule.
// Git looks into each, whatever diff.ignoreSubmodules says, if a .gitmodules file asks
// for it. So such entries are marked skip-worktree, by us when we write the index, and by
// a hook of ours when the user does.
package git
