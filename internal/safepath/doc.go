// Package safepath has the few operations on files that are easy to get wrong next to a
// sandbox, so that each is written once.
//
// A sandbox writes to its workspace, its home and its layers while the host reads them. Every
// name in such a tree is the sandbox's to choose, and may become a symbolic link, a named pipe or
// another directory between two system calls. So:
//
//   - [Open] resolves a path below an open directory in one call (openat2), which the kernel
//     ends at a link, at ".." and, if asked, at a mount point.
//   - [OpenFile] opens regular files only, and never waits for the other end of a pipe.
//   - [ReadFile] reads no more than it is told, whatever size the file claims to have.
//   - [RemoveTree] deletes what a sandbox has left, however deep, without leaving it.
//
// [os.Root] is for trees in which following a link is harmless as long as it stays inside: it
// resolves links itself.
//
// The rest is about our own files: [File.Write] replaces one so that a reader or a crash sees
// the old or the new content, [Directory] makes a directory and names a link that leads nowhere,
// and [Within] compares paths.
package safepath
