// Package mask decides which files of a directory a sandbox must not see, and finds them.
//
// What to hide is said in the language of .gitignore, in full: see [Parse]. Three hands
// write such lines, and they are not equals:
//
//	built in           what nearly always is a secret: .env, keys, credentials
//	the user's config  the user's own word; it may take built-in masks back
//	the repository     .sandboxignore files and coffer.toml: a stranger's wish, in a
//	                   place where programs in a sandbox can write
//
// So a [Set] keeps them apart. The first two are one list, in which the last line that
// matches counts. What the repository hides is hidden as well; what it wants shown that
// the first two hide is shown only by lines that the user agreed to before they got here.
// Files that are found in the tree, at the start or later, can only add: see [Set.Add].
// Lines of theirs that would show something are told ([Set.Refused]), so that the user can
// be asked; once he has agreed, the whole file is among the repository's rules, and counts
// as it does for git.
//
// [Scan] looks through a tree that a sandbox may have written, without following a link,
// and [Tree.Watch] hears of what appears in it later. Neither changes anything: who hides the
// files is package rootfs, by mounts.
//
// Two rules keep that quick and useful. Git's own directories are not looked into, nor are
// those of dependencies ([Dependencies]), unless a line names them: what a package manager
// put there came over the network, and must be removable by it. And some built-in lines
// look at the file too: a .pem is hidden if there is a private key in it.
package mask
