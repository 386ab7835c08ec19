//go:build !linux

package shed

// Program has nothing to let go of here.
func Program() {}
