//go:build !linux

package main

import (
	"context"

	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// engines is empty: the container engine needs Linux.
func engines() []engine.Engine { return nil }

func defaultEngine() engine.Engine { return absent{} }

type absent struct{}

func (absent) Name() string                        { return "none" }
func (absent) Probe(context.Context) engine.Report { return engine.Report{} }
func (absent) Boot(context.Context, *engine.Machine) (engine.Instance, error) {
	return nil, ui.Error("there is no engine for this system yet", "run coffer on Linux, or in a Linux virtual machine")
}

func jailReport() engine.Report { return engine.Report{} }

func missingWalls() []engine.Check { return nil }

var programs map[string]func() int

func purge(tree string) error           { return safepath.RemoveTree(tree) }
func purgeForgotten(tree string) error  { return safepath.RemoveTree(tree) }
func purgeSupervised(tree string) error { return safepath.RemoveTree(tree) }
func purgeFiles(tree string) error      { return safepath.RemoveTree(tree) }
