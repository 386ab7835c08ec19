//go:build !linux

package git

import "os"

// renameNew renames to a name that nobody has.
func renameNew(from, to string) error { return os.Rename(from, to) }
