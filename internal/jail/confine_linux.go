package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/guest"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// thread is what the program's thread gives up in a jail with these walls. Where programs may write
// and read is left to the caller.
func (p *Policy) thread(w Walls) *confine.Thread {
	return &confine.Thread{
		Landlock: &confine.LandlockRules{Scoped: true, NoSockets: !p.Unix, NoPorts: w.NoInternet || w.OnlyPorts, Ports: p.ports, NoLinks: true, ABI: p.abi},
		Seccomp:  confine.SeccompOptions{NoUnix: w.NoUnix, NoInternet: w.NoInternet, OnlyTCP: w.OnlyPorts, NoTruncate: w.NoTruncate},
	}
}

// devices are what a program without a /dev of its own may use: nothing that belongs to
// another terminal, and no disk.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// openWithoutMounts says what may be written and read where only Landlock says so.
func (l *layout) openWithoutMounts(r *confine.LandlockRules, private bool, tmp string) error {
	own := append(existing(devices), tmp)
	if t := ownTerminal(); t != "" {
		own = append(own, t)
	}
	r.Write = slices.Concat(own, outermost(l.write))
	if private {
		r.Read = slices.Concat(own, l.needed())
		return nil
	}
	// Everything, but that other terminals and disks must not be read, and what other
	// programs have in /tmp and /run is theirs.
	r.Read = slices.Concat(own, l.shown(false), l.write)
	r.List = []string{"/"}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch path := "/" + e.Name(); path {
		case "/dev", "/tmp", "/run":
		default:
			if e.IsDir() || e.Type().IsRegular() {
				r.Read = append(r.Read, path)
			}
		}
	}
	return nil
}

// needed is all that a private jail can read.
func (l *layout) needed() []string {
	return outermost(slices.Concat(rootfs.System(l.home), existing([]string{"/proc", "/sys/devices/system/cpu"}),
		runPlaces(), l.write, l.read))
}

// existing leaves out what this machine does not have.
func existing(paths []string) (there []string) {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			there = append(there, p)
		}
	}
	return there
}

// ownTerminal is the device that this process was started on, or nothing.
func ownTerminal() string {
	for fd := range 3 {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			continue
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err == nil && strings.HasPrefix(path, "/dev/") && len(existing([]string{path})) == 1 {
			return path
		}
	}
	return ""
}

// FindProgram finds a command as a shell would, in the PATH of its own environment.
func FindProgram(name, dir string, env []string) (string, error) {
	shown := name[:min(len(name), 200)]
	if name == "" {
		return "", &wire.Failure{Code: 127, Message: "the command is empty"}
	}
	failure := &wire.Failure{Code: 127, Message: fmt.Sprintf("%q: command not found", shown)}
	for _, path := range guest.Candidates(name, dir, env) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			failure = &wire.Failure{Code: 126, Message: fmt.Sprintf("%q is a directory", shown)}
		case unix.Access(path, unix.X_OK) != nil:
			failure = &wire.Failure{Code: 126, Message: fmt.Sprintf("%q may not be executed", shown)}
		default:
			return path, nil
		}
	}
	return "", failure
}

// launch starts a program with start, and a script without a first line that names its
// interpreter with a shell.
func launch(path string, argv []string, start func(path string, argv []string) error) error {
	err := start(path, argv)
	if errors.Is(err, unix.ENOEXEC) {
		err = start("/bin/sh", append([]string{"sh", path}, argv[1:]...))
	}
	var no syscall.Errno
	switch {
	case err == nil || !errors.As(err, &no):
		return err
	case no == unix.ENOENT:
		return &wire.Failure{Code: 127, Message: fmt.Sprintf("%q, or its interpreter, cannot be found", path)}
	}
	return &wire.Failure{Code: 126, Message: fmt.Sprintf("%q cannot be executed: %v", path, no)}
}

// Off turns this process into a program with no wall around it at all, for users who
// insist. It returns only if that failed, with the exit code that a wall would have given.
func Off(argv []string, dir string, env []string) error {
	path, err := FindProgram(argv[0], dir, env)
	if err != nil {
		return err
	}
	return launch(path, argv, func(path string, argv []string) error { return syscall.Exec(path, argv, env) })
}
