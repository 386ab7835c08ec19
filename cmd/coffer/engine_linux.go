package main

import (
	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/engine/container"
)

// engines lists what this build has.
func engines() []engine.Engine { return []engine.Engine{container.Engine{}} }

func defaultEngine() engine.Engine { return container.Engine{} }

const purgeName = container.PurgeName

func purge(tree string) error { return container.Purge(tree) }
func purgeMain() int          { return container.PurgeMain() }
