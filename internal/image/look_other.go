//go:build !linux

package image

// Has is about images, which are for Linux.
func (i *Image) Has(string) bool { return false }

// Look is, too.
func (i *Image) Look(string) (string, bool) { return i.Path(), false }
