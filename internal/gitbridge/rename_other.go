//go:build !linux

package gitbridge

import "os"

// renameNew renames to a name that nobody has.
func renameNew(from, to string) error { return os.Rename(from, to) }
