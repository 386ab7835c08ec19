// Package checkpoint keeps what the files of a workspace were at certain moments, and
// brings them back.
//
// A checkpoint is the list of files that were different from the commit the workspace started from,
// and their contents, as objects in git's own format. Contents that the commit has are in the
// user's repository already. All of it lies in the sandbox's folder, out of the sandbox's reach: a
// program inside can ruin its files and its git directory, not the way back.
//
// Git on the host must not run among files that a sandbox writes, because they say what git
// does with them (filters, attributes, nested repositories), and git inside answers to the
// sandbox. So coffer reads and writes the files itself ([Walk], [Dir]): one name at a time in
// an open directory, following no link. Content has the name that git gives to it. Files that
// git ignores are left out ([Ignore]), unless they are known: a committed file is never ignored.
//
//	checkpoints/list.json     which there are, and whether one is being restored
//	checkpoints/N             the list of files of one
//	checkpoints/objects/      contents
//	checkpoints/cache         what the files looked like at the last look
//
// A file that looks to the kernel as at the last look is not read again, as in git's
// index. The time of a file's last change cannot be set by a program, so nobody can make
// a changed file look unchanged.
//
// To restore is noted before it is begun, and what was there before is a checkpoint by
// then: whoever is killed on the way, the next one finishes.
//
// Kept are the first and the newest hundred, and no more than 4 GiB. Not kept are files
// that git ignores, git directories, files of more than 64 MiB, and what cannot be read;
// to restore leaves those as they are.
package checkpoint
