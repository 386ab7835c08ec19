package agent

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A version manager puts a shim in front of each tool: a small program that finds out
// which version is meant, by settings in the user's home and in the directory that the
// user is in. A sandbox does not have the first. So what is started inside is what is
// behind the shim.

// behind is what a shim stands for, and any other program itself.
func (h Host) behind(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return file
	}
	name, data := filepath.Base(file), filepath.Dir(filepath.Dir(file))
	tool := ""
	switch manager := filepath.Base(real); {
	case name == manager:
	case manager == "mise":
		if h.Runs(file) {
			tool = miseWhich(real, name)
		}
		tool = cmp.Or(tool, newest(data, name))
	case manager == "volta-shim":
		tool = voltaTool(data, name)
	}
	if tool == "" && filepath.Base(filepath.Dir(file)) == "shims" {
		tool = asdfTool(file, data)
	}
	if tool == "" || !executable(tool) {
		return file
	}
	return tool
}

// miseWhich asks the user's mise, where no project has a word in it.
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

// newest finds a tool in a directory of mise's, whatever it belongs to.
func newest(data, name string) (tool string) {
	var best string
	for _, where := range []string{"bin", "."} {
		all, _ := filepath.Glob(filepath.Join(data, "installs", "*", "*", where, name))
		for _, file := range all {
			version := strings.Split(strings.TrimPrefix(file, filepath.Join(data, "installs")+"/"), "/")[1]
			if VersionIn(version) == version && executable(file) && (tool == "" || compareVersions(version, best) > 0) {
				tool, best = file, version
			}
		}
	}
	return tool
}

// voltaTool is where Volta has a tool, and which node it would run it with.
func voltaTool(data, name string) string {
	image := filepath.Join(data, "tools", "image")
	if name == "node" {
		var platform struct{ Node struct{ Runtime string } }
		if !readJSON(filepath.Join(data, "tools", "user", "platform.json"), &platform) || platform.Node.Runtime == "" {
			return ""
		}
		return filepath.Join(image, "node", platform.Node.Runtime, "bin", "node")
	}
	var bin struct{ Package string }
	if !readJSON(filepath.Join(data, "tools", "user", "bins", name+".json"), &bin) || bin.Package == "" {
		return ""
	}
	return filepath.Join(image, "packages", filepath.FromSlash(bin.Package), "bin", name)
}

// asdfTool is the newest of those that a script of asdf's names in its comments.
func asdfTool(file, data string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	type install struct{ plugin, version string }
	var all []install
	for lines := bufio.NewScanner(io.LimitReader(f, 64<<10)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "# asdf-plugin: ")
		if words := strings.Fields(rest); ok && len(words) == 2 {
			all = append(all, install{words[0], words[1]})
		}
	}
	if len(all) == 0 {
		return ""
	}
	best := slices.MaxFunc(all, func(a, b install) int { return compareVersions(a.version, b.version) })
	return filepath.Join(data, "installs", best.plugin, best.version, "bin", filepath.Base(file))
}

// readJSON reads a small file of a version manager's.
func readJSON(file string, into any) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return err == nil && json.Unmarshal(data, into) == nil
}
