//go:build !linux

package mask

import (
	"context"
	"errors"
)

// A Tree is a directory that is looked through. Only Linux has sandboxes so far.
type Tree struct {
	Set  *Set
	Root string
	// Top says that a repository at the root is told of as those further down are.
	Top bool
}

// Open opens a tree to ask a set about.
func Open(string, *Set) (*Tree, error) { return nil, errors.ErrUnsupported }

// Close lets go of the tree.
func (*Tree) Close() {}

// Scan looks through the tree.
func (*Tree) Scan(context.Context) (*Result, error) { return nil, errors.ErrUnsupported }

// Repositories looks for repositories further down.
func (*Tree) Repositories(context.Context) ([]Found, error) { return nil, errors.ErrUnsupported }

// Hides returns the rule by which something in the tree is hidden.
func (*Tree) Hides(string, bool) *Rule { return nil }

// Gone says that there is nothing of this path in the tree.
func (*Tree) Gone(string) bool { return true }

// Harmless says that a file gives nothing away.
func (*Tree) Harmless(Found) bool { return false }

// Listen does nothing on this system.
func (t *Tree) Listen() {}

// Watch tells what appears in the tree.
func (*Tree) Watch(context.Context, Watching) error { return errors.ErrUnsupported }
