//go:build !linux

package mask

import "context"

// A DirWatch cannot be had here, and always says yes.
type DirWatch struct{}

// Begin does nothing here.
func (w *DirWatch) Begin() {}

// Add does nothing here.
func (w *DirWatch) Add(int) {}

// Lose does nothing here.
func (w *DirWatch) Lose() {}

// Blind says yes.
func (w *DirWatch) Blind() bool { return true }

// Wait does not.
func (w *DirWatch) Wait(context.Context) {}

// Happened says yes.
func (w *DirWatch) Happened() bool { return true }

// Close does nothing here.
func (w *DirWatch) Close() {}
