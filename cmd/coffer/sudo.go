package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/supervisor"
)

// sudo is the program of that name inside a sandbox: it asks the guest agent, which
// asks for no password. Root of the sandbox is root of nothing else.
func sudo(args []string) int {
	login, env := false, os.Environ()
flags:
	for len(args) > 0 {
		switch a := args[0]; {
		case a == "--":
			args = args[1:]
			break flags
		case a == "-i" || a == "-s" || a == "--login" || a == "--shell":
			login = true
		case a == "-u" || a == "--user":
			if len(args) > 1 && args[1] != "root" {
				return report(usagef("sudo in a sandbox knows root only, not %q", args[1]))
			}
			args = args[1:]
		case a == "-V" || a == "--version":
			fmt.Println("sudo of a coffer sandbox", version())
			return 0
		case a == "-h" || a == "--help":
			fmt.Println("usage: sudo [-i] [NAME=value…] COMMAND [ARG…]\n\nRuns a command as root of this sandbox. There is no password.")
			return 0
		case strings.HasPrefix(a, "-"):
			// -n, -E, -H, -S, -k, -v and the like: nothing to do here.
		case strings.Contains(a, "=") && !strings.HasPrefix(a, "="):
			env = append(env, a)
		default:
			break flags
		}
		if len(args) > 0 {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		if !login {
			return 0
		}
		args = []string{supervisor.Me().Shell}
	}
	return asRoot(args, env)
}

// asRoot runs a command as root of the sandbox that we are in.
func asRoot(args, env []string) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	e := wire.Exec{Root: true, Dir: dir}
	for _, v := range env {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "HOME", "USER", "LOGNAME":
		case "PATH":
			e.Env = append(e.Env, []byte("PATH="+rootPath(value)))
		default:
			e.Env = append(e.Env, []byte(v))
		}
	}
	e.Env = append(e.Env, []byte("HOME=/root"), []byte("USER=root"), []byte("LOGNAME=root"))
	for _, a := range args {
		e.Argv = append(e.Argv, []byte(a))
	}
	// The user's own terminal is outside, behind the filter there.
	exit, err := attach.Run(context.Background(), wire.Dial(guest.Socket), e, attach.Options{Unfiltered: true})
	if err := ended(exit, err, ""); err != nil {
		return report(err)
	}
	return 0
}
