// Package tree reads a directory that a stranger writes to while we look, and says what
// is different from what it was.
//
// Git could say that too, but git on the host must not be run among files that a sandbox
// writes: they say what git does with them (filters, attributes, nested repositories). Git
// inside could say it, but that one answers to the sandbox. So the files are read here,
// with nothing but system calls that take one name in one open directory and follow no
// link. What a file was is known by the name that git gives to its content.
//
// Files that git ignores are left out, by git's own rules, see [Ignore]; unless they are
// known, for a file that was committed is never ignored.
package tree
