//go:build !linux

package watch

import "context"

// A Watch cannot be had here, and always says yes.
type Watch struct{}

// Begin does nothing here.
func (w *Watch) Begin() {}

// Add does nothing here.
func (w *Watch) Add(int) {}

// Lose does nothing here.
func (w *Watch) Lose() {}

// Blind says yes.
func (w *Watch) Blind() bool { return true }

// Wait does not.
func (w *Watch) Wait(context.Context) {}

// Happened says yes.
func (w *Watch) Happened() bool { return true }

// Close does nothing here.
func (w *Watch) Close() {}
