package agent

import (
	"path/filepath"
	"strings"
)

// behind returns the program that a version manager's shim stands for, and any other program
// itself. A shim reads settings in the user's home, which a sandbox does not have.
func (h Host) behind(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return file
	}
	name, data, manager := filepath.Base(file), filepath.Dir(filepath.Dir(file)), filepath.Base(real)
	tool := ""
	switch {
	case name == manager && filepath.Base(filepath.Dir(file)) != "shims":
		return file
	case manager == "volta-shim":
		tool = newest(data, "tools/image/packages/*/bin/"+name, "tools/image/packages/*/*/bin/"+name, "tools/image/"+name+"/*/bin/"+name)
	}
	if tool == "" {
		tool = newest(data, "installs/*/*/bin/"+name, "installs/*/*/"+name)
	}
	if !executable(tool) {
		return file
	}
	return tool
}

// newest finds the program with the highest version in its path, in a directory of a version manager.
func newest(data string, patterns ...string) (tool string) {
	best := ""
	for _, pattern := range patterns {
		all, _ := filepath.Glob(filepath.Join(data, pattern))
		for _, file := range all {
			version := VersionIn(strings.TrimPrefix(file, data))
			if executable(file) && (tool == "" || compareVersions(version, best) > 0) {
				tool, best = file, version
			}
		}
	}
	return tool
}
