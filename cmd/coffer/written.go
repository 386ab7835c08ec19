package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
)

// writtenInside are the directories in which a sandbox may have written: those of the sandboxes
// that exist, and, because others may have existed, the current one and its repositories.
func writtenInside() (dirs []string) {
	if here, err := syscall.Getwd(); err == nil { // as the kernel has it, without links
		home := supervisor.Me().Home
		// No workspace is a whole home.
		for dir := here; dir != home && !safepath.Within(home, dir); dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || dir == here {
				dirs = append(dirs, dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	if dir, err := sandbox.DefaultDir(); err == nil {
		dirs = append(dirs, dir)
	}
	for _, sb := range allSandboxes() {
		if sb.Workspace.Path != "" {
			dirs = append(dirs, sb.Workspace.Path)
		}
		for _, m := range sb.Mounts {
			if !m.ReadOnly {
				dirs = append(dirs, m.Source)
			}
		}
	}
	return dirs
}
