package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

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
	f := pflag.NewFlagSet("sudo", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.Usage = func() {
		fmt.Fprintln(stdout, "usage: sudo [-i] [-u USER] [NAME=value…] COMMAND [ARG…]\n\nRuns a command as root of this sandbox, or as another user. There is no password.")
	}
	f.StringVarP(&s.user, "user", "u", "root", "")
	f.BoolVarP(&s.shell, "login", "i", false, "")
	f.BoolVarP(&s.shell, "shell", "s", false, "")
	versioned := f.BoolP("version", "V", false, "")
	// About passwords, of which there are none.
	for long, short := range map[string]string{"validate": "v", "reset-timestamp": "k", "remove-timestamp": "K", "list": "l"} {
		f.BoolVarP(&s.done, long, short, false, "")
	}
	// Nothing to do here.
	for long, short := range map[string]string{"non-interactive": "n", "set-home": "H", "stdin": "S", "askpass": "A", "background": "b", "preserve-groups": "P", "bell": "B"} {
		f.BoolP(long, short, false, "")
	}
	f.StringP("preserve-env", "E", "", "")
	f.Lookup("preserve-env").NoOptDefVal = "all"

	for s.args, s.env = args, env; ; s.args = s.args[1:] {
		if err := f.Parse(s.args); errors.Is(err, pflag.ErrHelp) {
			s.done = true
			return s, nil
		} else if err != nil {
			return s, usagef("sudo in a sandbox: %w", err)
		}
		s.args = f.Args()
		name, _, set := strings.Cut(first(s.args), "=")
		if !set || name == "" || f.ArgsLenAtDash() >= 0 {
			break
		}
		s.env = append(slices.DeleteFunc(slices.Clone(s.env), func(v string) bool { return strings.HasPrefix(v, name+"=") }), s.args[0])
	}
	switch {
	case *versioned:
		fmt.Fprintln(stdout, "sudo of a coffer sandbox", version())
		s.done = true
	case s.user == "root" || s.user == "#0":
		s.user = ""
	case s.user == "" || s.user[0] == '#':
		return s, usagef("sudo in a sandbox wants the name of a user, not %q", s.user)
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
