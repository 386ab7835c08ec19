package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
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
	case manager == "mise" && h.Runs(file):
		tool = miseWhich(real, name)
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

// miseWhich asks the user's mise, from a directory without any project.
func miseWhich(mise, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, mise, "which", name)
	c.Dir, c.WaitDelay = "/", time.Second
	c.Env = append(os.Environ(), "MISE_OFFLINE=1")
	out, err := c.Output()
	if tool := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(tool) {
		return tool
	}
	return ""
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
