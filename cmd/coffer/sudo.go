package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/inside"
	"github.com/cofferhq/coffer/internal/person"
	"github.com/cofferhq/coffer/internal/umask"
)

// sudo is the program of that name inside a sandbox: it asks the guest agent, which
// asks for no password. Root of the sandbox is root of nothing else.
func sudo(args []string) int {
	args, env, shell, done, err := sudoArgs(args, os.Environ())
	switch {
	case err != nil:
		return report(err)
	case done:
		return 0
	case len(args) > 0:
	case shell:
		args = []string{person.Me().Shell}
	default:
		return report(usagef("sudo wants a command, or -i for a shell"))
	}
	return asRoot(args, env)
}

// sudoArgs takes sudo's own options and NAME=value words away from a command line. done
// says that there is nothing more to do.
func sudoArgs(args, env []string) (rest, newEnv []string, shell, done bool, err error) {
	for ; len(args) > 0; args = args[1:] {
		name, value, hasValue := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--":
			return args[1:], env, shell, false, nil
		case strings.HasPrefix(args[0], "-u") && len(args[0]) > 2:
			name, value, hasValue = "-u", args[0][2:], true
		case !strings.HasPrefix(args[0], "-") && hasValue && name != "":
			env = setEnv(env, name, value)
			continue
		case !strings.HasPrefix(args[0], "-"):
			return args, env, shell, false, nil
		}
		switch name {
		case "-i", "-s", "--login", "--shell":
			shell = true
		case "-u", "--user":
			if !hasValue && len(args) > 1 {
				args = args[1:]
				value = args[0]
			}
			if value != "root" && value != "#0" {
				return nil, nil, false, false, usagef("sudo in a sandbox knows root only, not %q", value)
			}
		case "-V", "--version":
			fmt.Fprintln(stdout, "sudo of a coffer sandbox", version())
			return nil, nil, false, true, nil
		case "-h", "--help":
			fmt.Fprintln(stdout, "usage: sudo [-i] [NAME=value…] COMMAND [ARG…]\n\nRuns a command as root of this sandbox. There is no password.")
			return nil, nil, false, true, nil
		case "-v", "-k", "-K", "-l", "--validate", "--reset-timestamp", "--remove-timestamp", "--list":
			return nil, nil, false, true, nil // about passwords, of which there are none
		case "-n", "-E", "-H", "-S", "-A", "-b", "-P", "-B", "--non-interactive", "--preserve-env", "--set-home", "--stdin", "--askpass", "--background":
			// Nothing to do here.
		default:
			return nil, nil, false, false, usagef("sudo in a sandbox does not know the option %q", args[0])
		}
	}
	return nil, env, shell, false, nil
}

// setEnv replaces a variable.
func setEnv(env []string, name, value string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(out, name+"="+value)
}

// asRoot runs a command as root of the sandbox that we are in.
func asRoot(args, env []string) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	e := wire.Exec{Root: true, Dir: dir, Umask: umask.Own()}
	for _, v := range env {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "HOME", "USER", "LOGNAME":
		case "PATH":
			e.Env = append(e.Env, []byte("PATH="+inside.RootPath(value)))
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
