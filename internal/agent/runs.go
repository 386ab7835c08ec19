package agent

import (
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/safepath"
)

// Runs says whether a program may be run on the host, to ask it something. One that is where
// a sandbox can write may be a sandbox's, be it on PATH or not: there, it is found to be run
// inside, and for nothing else.
func (h Host) Runs(program string) bool {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return false
	}
	var written []string
	if h.Written != nil {
		written = h.Written()
	}
	return !slices.ContainsFunc(written, func(dir string) bool {
		return safepath.Within(program, dir) || safepath.Within(real, dir)
	})
}
