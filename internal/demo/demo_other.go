//go:build !linux

package demo

import (
	"context"
	"errors"

	"github.com/cofferhq/coffer/internal/ui"
)

// Run says that there is nothing to show.
func Run(context.Context, Options) error {
	return ui.Error("the demo needs Linux", "run coffer on Linux, or in a Linux virtual machine")
}

// Act has no roles.
func Act(context.Context, []string) error { return errors.New("the demo needs Linux") }
