package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// Root of the sandbox lives in a user namespace nested in the sandbox's own. It has
// capabilities there, over files and processes of the sandbox's ids, and none in the
// outer namespace that owns the mounts and the network: so it can neither undo a
// read-only mount nor reconfigure the network, whatever its capabilities are called.
//
// Such a program is started from a second confined thread, which may still make user
// namespaces, and goes through a trampoline: this binary again, under another name,
// which drops what is left and becomes the program. The trampoline is confined from
// its first instruction, because whoever has the user's id inside may trace it.

// program is this binary, by its read-only mount: through /proc/self/exe the trampoline
// would show others inside the host's own, which may be writable.
const program = rootfs.Own + "/bin/coffer"

// makeWritable lets root change the system directories, once.
func (a *agent) makeWritable() error {
	a.writable.Lock()
	defer a.writable.Unlock()
	if a.opened {
		return nil
	}
	if err := a.layers.MakeWritable(a.boot.Plan, a.boot.Alone); err != nil {
		return fmt.Errorf("prepare the system for root: %w", err)
	}
	a.opened = true
	return nil
}

// prepareRoot makes ready what the first program run as root needs.
func (a *agent) prepareRoot() error {
	if err := a.makeWritable(); err != nil {
		return err
	}
	a.writable.Lock()
	defer a.writable.Unlock()
	if a.rootLauncher != nil {
		return nil
	}
	l, err := newLauncher(&a.boot, true)
	if err != nil {
		return err
	}
	a.rootLauncher = l
	return nil
}

// startRoot starts a program as root of the sandbox or, without arguments, a leader, whose
// line is the last of the descriptors.
func (a *agent) startRoot(argv []string, attr *attributes) (int, <-chan syscall.WaitStatus, error) {
	if err := a.prepareRoot(); err != nil {
		return 0, nil, err
	}
	read, failure, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer read.Close()
	wait, mapped, err := os.Pipe()
	if err != nil {
		failure.Close()
		return 0, nil, err
	}
	attr.Files = slices.Insert(attr.Files, 3, failure.Fd(), wait.Fd())
	attr.Sys.Cloneflags = syscall.CLONE_NEWUSER
	attr.Sys.AmbientCaps = Capabilities() // or exec, with an id not yet mapped, would lose them
	args := []string{RootName, strconv.FormatBool(a.boot.Nesting), strconv.FormatBool(a.boot.SetID), strconv.FormatBool(a.boot.Alone), attr.Dir}
	args = append(args, argv...)
	pid, end, err := a.rootLauncher.fork(a.reaper, len(argv) == 0, program, args, attr)
	failure.Close()
	wait.Close()
	if err == nil {
		err = a.reaper.with(pid, func() error { return a.mapIds(pid) })
	}
	mapped.Close() // now it goes on; or, if that failed, finds that it is nobody
	if err != nil {
		return 0, nil, fmt.Errorf("start the way to root: %w", err)
	}
	// The pipe closes silently when the program takes over.
	told, _ := io.ReadAll(io.LimitReader(read, wire.MaxReply))
	if len(told) == 0 {
		return pid, end, nil
	}
	<-end
	f := &wire.Failure{}
	if json.Unmarshal(told, f) != nil {
		f = &wire.Failure{Code: 125, Message: "the way to root failed"}
	}
	return 0, nil, f
}

// mapIds writes the ids of the trampoline's namespace: root is the sandbox's root. It
// is done when the trampoline runs already. Before, it is a copy of this process with
// its memory and descriptors, whose files in /proc belong to nobody here, for a reason:
// others inside may not reach them.
func (a *agent) mapIds(pid int) error {
	for name, id := range map[string]int{"uid_map": a.boot.UID, "gid_map": a.boot.GID} {
		text, err := swapped(name, id)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, name), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// swapped is the map in which root is the user and the user is root, and every other
// id that exists here means itself. So what root makes in the workspace belongs to the
// user outside, who could not remove a file of a subordinate id. A range must not span
// two of ours, so the map is made line by line.
func swapped(name string, id int) (string, error) {
	ours, err := os.ReadFile("/proc/self/" + name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	has := false // there is an id 0 here
	for line := range strings.Lines(string(ours)) {
		var first, host, count int
		if n, err := fmt.Sscan(line, &first, &host, &count); n != 3 || err != nil {
			return "", fmt.Errorf("understand %s: %q", name, line)
		}
		has = has || first == 0
		for _, r := range without(first, first+count, 0, id) {
			fmt.Fprintf(&text, "%d %d %d\n", r[0], r[0], r[1]-r[0])
		}
	}
	fmt.Fprintf(&text, "0 %d 1\n", id)
	if has && id != 0 {
		fmt.Fprintf(&text, "%d 0 1\n", id)
	}
	return text.String(), nil
}

// without cuts two numbers out of a range.
func without(from, to, a, b int) (ranges [][2]int) {
	for _, cut := range []int{min(a, b), max(a, b)} {
		if cut < from || cut >= to {
			continue
		}
		if cut > from {
			ranges = append(ranges, [2]int{from, cut})
		}
		from = cut + 1
	}
	if from < to {
		ranges = append(ranges, [2]int{from, to})
	}
	return ranges
}

// RootMain is the trampoline: it drops what its thread was left with and becomes the
// program. Its arguments are three options of the filter, the directory, the command. If
// there is no command, it becomes a leader, who knows it.
func RootMain() int {
	runtime.LockOSThread()
	syscall.CloseOnExec(3)
	failure := os.NewFile(3, "failure")
	wait := os.NewFile(4, "wait")
	wait.Read(make([]byte, 1)) // ends when our ids are mapped
	wait.Close()
	tell := func(err error) int {
		f, ok := err.(*wire.Failure)
		if !ok {
			f = &wire.Failure{Code: 125, Message: err.Error()}
		}
		json.NewEncoder(failure).Encode(f)
		return f.Code
	}
	if len(os.Args) < 5 {
		return tell(errors.New("the way to root is not for calling by hand"))
	}
	options := confine.SeccompOptions{Nesting: os.Args[1] == "true", SetID: os.Args[2] == "true", IgnoreSetID: true, OneID: os.Args[3] == "true"}
	dir, argv, env := os.Args[4], os.Args[5:], os.Environ()
	_ = unix.Setgroups(nil) // refused where only one id is mapped, and then there is nothing to gain
	for _, f := range []func(int, int, int) error{unix.Setresgid, unix.Setresuid} {
		if err := f(0, 0, 0); err != nil {
			return tell(fmt.Errorf("become root of the sandbox: %w", err))
		}
	}
	keep := rootCapabilities
	options.NoExtended = options.Nesting && !options.SetID
	if options.Nesting || options.SetID {
		keep = append(keep, unix.CAP_SETFCAP)
	}
	if err := confine.DropCapabilities(keep...); err != nil {
		return tell(err)
	}
	if err := confine.Seccomp(options); err != nil {
		return tell(err)
	}
	if len(argv) == 0 {
		return tell(syscall.Exec(program, leadArgs(5), env))
	}
	return tell(spawn(argv, env, dir, func(path string, argv []string) error {
		return syscall.Exec(path, argv, env)
	}))
}
