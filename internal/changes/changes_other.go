//go:build !linux

package changes

import (
	"context"
	"io"
)

// List returns ErrUnsupported: there is no overlayfs on this system.
func List(context.Context, string, string, ...Masked) ([]Change, error) { return nil, ErrUnsupported }

// Diff returns ErrUnsupported: there is no overlayfs on this system.
func Diff(context.Context, io.Writer, string, string, DiffOptions) error { return ErrUnsupported }

// Each returns ErrUnsupported: there is no overlayfs on this system.
func Each(context.Context, string, string, int64, Masked, func(Change, File) error) error {
	return ErrUnsupported
}

// Apply returns ErrUnsupported: there is no overlayfs on this system.
func Apply(context.Context, string, string, ApplyOptions) (Result, error) {
	return Result{}, ErrUnsupported
}

// Discard returns ErrUnsupported: there is no overlayfs on this system.
func Discard(string, string) error { return ErrUnsupported }
