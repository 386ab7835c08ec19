// Package sandbox keeps sandboxes: things with a name and a place on disk that
// outlive every process which works on them.
//
// A store is one directory, $XDG_DATA_HOME/coffer/sandboxes, with one folder
// per sandbox. Deleting the folder deletes the sandbox; there is no index, no
// database and no daemon that could disagree with what is on disk:
//
//	<store>/.lock              the store lock, see below
//	<store>/<id>/sandbox.json  the record: name, workspace, limits
//	<store>/<id>/lock          held by the process that runs the sandbox
//	<store>/<id>/control.sock  made by that process
//	<store>/<id>/home/         the sandbox's home directory
//	<store>/<id>/layers/       its writable layers
//	<store>/<id>/workspace/    its git worktree, if it has one; see package git
//	<store>/<id>/git/          and the private git directory
//	<store>/<id>/include/      the same of other repositories
//	<store>/<id>/logs/         what it and its supervisor wrote
//	<store>/.new-<id>/         being created
//	<store>/.gone-<id>-<rand>/ being deleted
//
// Three rules make that safe for any number of coffer processes at once, any of
// which may be killed at any instruction.
//
// A sandbox is running exactly as long as its lock is held. The kernel drops the
// lock with the process, so there is no stale pid to guess about.
//
// A folder appears and disappears by one rename. It is filled under its .new-
// name and emptied under its .gone- name, so under its own name it is whole.
//
// Whoever gives a sandbox a name, moves its folder, or takes its lock, holds the store lock
// meanwhile (microseconds; a few milliseconds where a disk has to be waited for). What is true
// under the store lock therefore stays true until it is given back: a free name stays free, a
// stopped sandbox stays stopped, and a .new- folder was left behind by the dead. Reading takes no
// lock at all and works in a read-only store.
//
// What a crash leaves behind, [Store.Sweep] removes. It runs at the start of every command and so
// must cost next to nothing: it reads one directory, and the first letter of an id tells it which
// sandboxes are throw-away without opening their records.
//
// The tree of a stopped sandbox was written by a stranger. [safepath.RemoveTree] deletes
// it without following a link or crossing a mount.
//
// # What a program inside is given
//
// [NewExec] decides the environment, directory, shell and umask that a program starts with. The
// user is the same person inside and outside ([Me]). Variables of a sandbox are templates, which
// may read the user's own variables and the secrets of the vault.
package sandbox
