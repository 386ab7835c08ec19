package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/ui"
)

// ownEnvironment is what of the user's environment a program in a jail is given. (For a
// sandbox, see package inside.)
func ownEnvironment() map[string]string {
	me := supervisor.Me()
	env := map[string]string{}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok && sandbox.PassesVariable(name) {
			env[name] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env["HOME"], env["USER"], env["LOGNAME"], env["SHELL"] = me.Home, me.Name, me.Name, me.Shell
	return env
}

// setVariables sets what was asked for: NAME=value, or NAME to pass the user's on.
func setVariables(env map[string]string, asked []string) error {
	for _, e := range asked {
		name, value, ok := strings.Cut(e, "=")
		if name == "" || strings.ContainsRune(e, 0) {
			return usagef("%q is not an environment variable: want NAME=value, or NAME to pass yours on", e)
		}
		if err := sandbox.RefusedVariable(name); err != nil {
			return usage{err}
		}
		if !ok {
			var err error
			if value, ok, err = sandbox.PassedVariable(name); err != nil {
				return ui.Hint(fmt.Errorf("the variable %s %w", name, err), "%s", ui.HintOf(err))
			} else if !ok {
				return ui.Hint(usagef("the environment variable %s is not set, and there is no secret of that name", name),
					"export it, give it a value (-e %s=value), or keep it: coffer secret set %s", name, name)
			}
		}
		env[name] = value
	}
	return nil
}

func sortedEnvironment(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}
