// Package gitbridge lets a sandbox have a repository of its own that the host knows as
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
// The host never runs git on the private directory. What was committed inside comes out
// as a pack: a small one is made here of files that git inside wrote, see package loose, and
// any other is handed out by git upload-pack inside. Git outside checks every object of it,
// aside from the others, and that nothing is missing; see [Bridge.Sync]. What the user
// commits in the tree outside goes in without any transfer, because its objects can be seen
// there already: a ref is all that has to move, and git inside moves it.
//
// The user types git in the tree too, among files that a stranger wrote. The index, the
// config and the hooks that count there are the host's. One thing is left by which git
// would read a git directory among the files: an entry of the index that is a submodule.
// Git looks into each, whatever diff.ignoreSubmodules says, if a .gitmodules file asks
// for it. So such entries are marked skip-worktree, by us when we write the index, and by
// a hook of ours when the user does.
package gitbridge
