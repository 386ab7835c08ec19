package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// sudo is the program of that name inside: it asks the guest agent, without a password, for root of the sandbox.
func sudo(args []string) int {
	s, err := sudoArgs(args, os.Environ())
	switch {
	case err != nil:
		return report(err)
	case s.done:
		return 0
	case len(s.args) > 0:
	case s.shell:
		s.args = []string{sandbox.Me().Shell}
	default:
		return report(usagef("sudo wants a command, or -i for a shell"))
	}
	if s.user != "" {
		return asUser(s.user, s.args, s.env)
	}
	return asRoot(s.args, s.env, "/root", "root")
}

// A sudoLine is a command line of sudo, understood.
type sudoLine struct {
	args, env []string
	user      string // "" for root
	shell     bool
	done      bool // there is nothing to run
}

// sudoArgs takes sudo's own options and NAME=value words away from a command line.
func sudoArgs(args, env []string) (s sudoLine, err error) {
	s.env = env
	for ; len(args) > 0; args = args[1:] {
		name, value, hasValue := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--":
			s.args = args[1:]
			return s, nil
		case strings.HasPrefix(args[0], "-u") && len(args[0]) > 2:
			name, value, hasValue = "-u", args[0][2:], true
		case !strings.HasPrefix(args[0], "-") && hasValue && name != "":
			s.env = append(slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return strings.HasPrefix(v, name+"=") }), args[0])
			continue
		case !strings.HasPrefix(args[0], "-"):
			s.args = args
			return s, nil
		}
		switch name {
		case "-i", "-s", "--login", "--shell":
			s.shell = true
		case "-u", "--user":
			if !hasValue && len(args) > 1 {
				args = args[1:]
				value = args[0]
			}
			if s.user = value; value == "root" || value == "#0" {
				s.user = ""
			} else if value == "" || value[0] == '#' {
				return s, usagef("sudo in a sandbox wants the name of a user, not %q", value)
			}
		case "-V", "--version":
			fmt.Fprintln(stdout, "sudo of a coffer sandbox", version())
			s.done = true
			return s, nil
		case "-h", "--help":
			fmt.Fprintln(stdout, "usage: sudo [-i] [-u USER] [NAME=value…] COMMAND [ARG…]\n\nRuns a command as root of this sandbox, or as another user. There is no password.")
			s.done = true
			return s, nil
		case "-v", "-k", "-K", "-l", "--validate", "--reset-timestamp", "--remove-timestamp", "--list":
			s.done = true // about passwords, of which there are none
			return s, nil
		case "-n", "-E", "-H", "-S", "-A", "-b", "-P", "-B", "--non-interactive", "--preserve-env", "--set-home", "--stdin", "--askpass", "--background":
			// Nothing to do here.
		default:
			return s, usagef("sudo in a sandbox does not know the option %q", args[0])
		}
	}
	return s, nil
}

// su runs the system's program of that name as root of the sandbox.
func su(name string, args []string) int {
	if oneID() {
		return report(errOneID)
	}
	return asRoot(append([]string{systemProgram(name)}, args...), os.Environ(), "/root", "root")
}

// systemProgram is the path of a program that coffer has one of the same name for.
func systemProgram(name string) string {
	for _, dir := range filepath.SplitList(sandbox.RootPath(os.Getenv("PATH"))) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); dir != rootfs.Own+"/bin" && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return "/usr/bin/" + name
}

func asUser(name string, args, env []string) int {
	u, err := user.Lookup(name)
	if err != nil {
		return report(usagef("the sandbox has no user %q", name))
	}
	if u.Uid == strconv.Itoa(os.Getuid()) {
		path, err := exec.LookPath(args[0])
		if err == nil {
			err = syscall.Exec(path, args, env)
		}
		return report(err)
	}
	if oneID() {
		return report(errOneID)
	}
	return asRoot(append([]string{systemProgram("runuser"), "-u", name, "--"}, args...), env, u.HomeDir, name)
}

var errOneID = ui.Error("this sandbox has one id, so no program can become another account", "run 'coffer doctor' outside: it says how to get a range of ids")

// oneID reports whether the sandbox has a single id, for its user and its root alike.
func oneID() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(data))
	return err == nil && len(fields) == 3 && fields[2] == "1"
}

// asRoot runs a command as root of the sandbox that we are in, with a user's home and name.
func asRoot(args, env []string, home, name string) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	e := wire.Exec{Root: true, Dir: dir, Umask: sandbox.OwnUmask()}
	for _, v := range env {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "HOME", "USER", "LOGNAME":
		case "PATH":
			e.Env = append(e.Env, []byte("PATH="+sandbox.RootPath(value)))
		default:
			e.Env = append(e.Env, []byte(v))
		}
	}
	e.Env = append(e.Env, []byte("HOME="+home), []byte("USER="+name), []byte("LOGNAME="+name))
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
