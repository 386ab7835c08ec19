package main

import (
	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/engine/container"
	"github.com/cofferhq/coffer/internal/supervisor"
)

// engines lists what this build has.
func engines() []engine.Engine { return []engine.Engine{container.Engine{}} }

func defaultEngine() engine.Engine { return container.Engine{} }

const purgeName = container.PurgeName

// purge removes what is left of a sandbox.
func purge(tree string) error {
	supervisor.Forget(tree)
	return container.Purge(tree)
}

func purgeMain() int { return container.PurgeMain() }
