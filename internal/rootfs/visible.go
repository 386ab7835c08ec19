package rootfs

import (
	"os"
	"path/filepath"
	"slices"
)

// System lists the directories of this machine that hold programs and no secrets: the
// system's, and the user's own tools.
func System(home string) []string {
	var all []string
	add := func(dir string) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			all = append(all, real)
		}
	}
	for _, dir := range system {
		add(dir)
	}
	for _, t := range toolchains {
		add(filepath.Join(home, t))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Shown lists the directories of this machine that every sandbox sees at their own path,
// by that path.
func Shown(home string) (all []string) {
	for _, dir := range system {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			all = append(all, dir)
		}
	}
	for _, t := range toolchains {
		dir := filepath.Join(home, t)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			all = append(all, dir)
		}
	}
	return all
}
