package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
)

// writtenInside are the directories in which a sandbox may have written: those of the ones that
// there are, and, as there may have been others, the one that we are in and its repository.
func writtenInside() (dirs []string) {
	if here, err := syscall.Getwd(); err == nil { // as the kernel has it, without links
		home := supervisor.Me().Home
		usable := func(dir string) bool { return dir != home && !safepath.Within(home, dir) } // no workspace is a whole home
		for dir := here; usable(dir); dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil || dir == here {
				dirs = append(dirs, dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	dir, err := sandbox.DefaultDir()
	if err != nil {
		return dirs
	}
	dirs = append(dirs, dir)
	store, err := sandbox.Open(dir)
	if err != nil {
		return dirs
	}
	all, _ := store.List()
	for _, sb := range all {
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
