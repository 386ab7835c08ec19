//go:build !linux

package image

import (
	"errors"
	"io"
)

// tree is what images are unpacked to, which needs Linux: only there can the kernel be asked to
// take a directory for the root of all names.
type tree struct{ bytes int64 }

var errSystem = errors.New("images are for sandboxes on Linux")

func newTree(string) (*tree, error)   { return nil, errSystem }
func (*tree) layer(r io.Reader) error { _, err := decompress(r); return errors.Join(err, errSystem) }
func (*tree) furnish() error          { return errSystem }
func (*tree) close()                  {}
func syncTree(string) error           { return errSystem }

// Has is about images, which are for Linux.
func (i *Image) Has(string) bool { return false }
