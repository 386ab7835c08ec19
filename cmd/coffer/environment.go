package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
)

// passed are the variables that go into a sandbox by themselves: language, terminal,
// taste. Everything else may hold a secret, a socket, or a library to load.
var passed = map[string]bool{
	"LANG": true, "LANGUAGE": true, "TZ": true, "TERM": true, "COLORTERM": true,
	"TERM_PROGRAM": true, "TERM_PROGRAM_VERSION": true, "COLORFGBG": true, "NO_COLOR": true,
	"FORCE_COLOR": true, "CLICOLOR": true, "CLICOLOR_FORCE": true, "COLUMNS": true, "LINES": true,
	"EDITOR": true, "VISUAL": true, "PAGER": true, "LESS": true, "CI": true, "PATH": true,
}

// environment is what a program inside is given.
func environment(sb *sandbox.Sandbox, extra []string, root bool) ([][]byte, error) {
	me := supervisor.Me()
	env := map[string]string{}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok && (passed[name] || strings.HasPrefix(name, "LC_")) {
			env[name] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env["PATH"] = rootfs.Own + "/bin:" + env["PATH"]
	env["HOME"], env["USER"], env["LOGNAME"], env["SHELL"] = me.Home, me.Name, me.Name, me.Shell
	if root {
		env["HOME"], env["USER"], env["LOGNAME"] = "/root", "root", "root"
		if me.UID == 0 {
			env["HOME"] = me.Home
		}
		env["PATH"] = rootPath(env["PATH"])
	}
	env["TMPDIR"], env["COFFER_SANDBOX"] = "/tmp", sb.ID
	for _, e := range append(append([]string(nil), sb.Env...), extra...) {
		name, value, ok := strings.Cut(e, "=")
		if name == "" || strings.ContainsRune(e, 0) {
			return nil, usagef("%q is not an environment variable: want NAME=value, or NAME to pass yours on", e)
		}
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				return nil, hint.Wrap(usagef("the environment variable %s is to be passed on but not set", name), "export it, or give it a value: -e %s=value", name)
			}
		}
		env[name] = value
	}
	names := make([]string, 0, len(env))
	for n := range env {
		names = append(names, n)
	}
	sort.Strings(names)
	var all [][]byte
	for _, n := range names {
		all = append(all, fmt.Appendf(nil, "%s=%s", n, env[n]))
	}
	return all, nil
}

// rootPath adds the directories of administrators' programs, which an ordinary user's
// PATH may lack.
func rootPath(path string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(filepath.SplitList(path), dir) {
			path += ":" + dir
		}
	}
	return path
}
