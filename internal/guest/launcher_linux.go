package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// confinement is what a thread gives up before it starts a program.
type confinement struct {
	Nesting  bool // containers inside are allowed
	Landlock bool // the second wall around files
	Write    []string
	// UserNamespaces keeps what it takes to start a process in a user namespace
	// of its own: capabilities, and that one flag of clone.
	UserNamespaces bool
	SetID          bool
	NoAllocate     bool // room on a disk is taken by writing only
	Processors     *unix.CPUSet
	Grouped        bool // the sandbox has control groups of its own
	// MapRoot keeps CAP_SETFCAP, without which the kernel lets nobody map id 0 into a user
	// namespace. It would also allow file capabilities, so no extended attribute may be set then.
	MapRoot bool
}

// rootCapabilities are what root of the sandbox keeps, over files and processes of
// the sandbox's own ids. None of them reaches a mount, a device or the network.
// CAP_SETFCAP comes with the right to set set-user-id bits: on a file that others on
// the host can execute, a file capability is the same thing.
var rootCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
	unix.CAP_SYS_CHROOT, unix.CAP_MKNOD, unix.CAP_AUDIT_WRITE,
}

func (b *Boot) confinement(root bool) confinement {
	c := confinement{Nesting: b.Nesting, Landlock: b.Landlock && !b.Nesting, Write: b.Plan.Writable, NoAllocate: b.NoAllocate, Processors: b.processors(), Grouped: b.Grouped}
	c.MapRoot = b.Nesting && b.UID == 0 && !root
	if root {
		c.UserNamespaces, c.SetID = true, b.SetID
		c.Write = nil
		entries, _ := os.ReadDir("/")
		for _, e := range entries {
			if e.IsDir() && "/"+e.Name() != rootfs.Own && e.Name() != "sys" {
				c.Write = append(c.Write, "/"+e.Name())
			}
		}
	}
	return c
}

// apply confines the calling thread, in the order that the steps need each other.
func (c confinement) apply() error {
	// The session keyring came with us from the host: join a new one, without a
	// name. A kernel without keyrings has none to leave.
	if _, _, err := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); err != 0 && err != unix.ENOSYS {
		return fmt.Errorf("leave the session keyring: %w", err)
	}
	if err := confine.NoNewPrivs(); err != nil {
		return err
	}
	if c.Landlock {
		if err := confine.Landlock(confine.LandlockRules{Write: c.Write}); err != nil {
			return err
		}
	}
	if !c.UserNamespaces {
		var keep []int
		if c.MapRoot {
			keep = append(keep, unix.CAP_SETFCAP)
		}
		if err := confine.DropCapabilities(keep...); err != nil {
			return err
		}
	}
	return confine.Seccomp(confine.SeccompOptions{
		Nesting: c.Nesting, UserNamespaces: c.UserNamespaces, SetID: c.SetID, NoExtended: c.MapRoot, NoAllocate: c.NoAllocate,
	})
}

// launcher starts programs from a thread of its own, which is confined for good.
type launcher struct {
	jobs chan func()
}

func newLauncher(c confinement) (*launcher, error) {
	l := &launcher{jobs: make(chan func())}
	started := make(chan error)
	go OffMain(func() {
		// Threads share a umask. From here on this one's is that of the program to be
		// started; the agent keeps its own, whatever it makes meanwhile.
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_FS))
		if err == nil {
			err = c.showLimits()
		}
		if err == nil {
			err = c.apply()
		}
		started <- err
		if err != nil {
			return
		}
		for job := range l.jobs {
			job()
		}
	})
	return l, <-started
}

// OffMain runs f on a thread of its own, which is never unlocked: the runtime must not
// use it for anything else. It is not the main thread: by the capabilities of that one
// the kernel judges who may look into the process, so it must keep them.
func OffMain(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	// While this goroutine holds the main thread, another one gets another thread.
	taken := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(taken)
		f()
	}()
	<-taken
	runtime.UnlockOSThread()
}

// do runs f on the confined thread.
func (l *launcher) do(f func()) {
	done := make(chan struct{})
	l.jobs <- func() { f(); close(done) }
	<-done
}

// attributes are what a program starts with.
type attributes struct {
	syscall.ProcAttr
	umask int
}

// fork starts a program from the confined thread, and has the reaper tell of its end. leads
// says that it is the leader of a session.
func (l *launcher) fork(r *reaper, leads bool, path string, argv []string, attr *attributes) (pid int, end <-chan syscall.WaitStatus, err error) {
	l.do(func() {
		unix.Umask(attr.umask)
		pid, end, err = r.start(leads, func() (int, error) { return syscall.ForkExec(path, argv, &attr.ProcAttr) })
	})
	return pid, end, err
}

// candidates lists the files that a command name may mean.
func candidates(name, dir string, env []string) []string {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return []string{name}
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	var all []string
	for _, p := range filepath.SplitList(path) {
		if p == "" {
			p = dir
		} else if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		all = append(all, filepath.Join(p, name))
	}
	return all
}

// spawn finds and starts a program with try, as execvp would: on to the next
// directory of PATH when a file is not there, and to a shell for a script without a
// first line that names its interpreter.
func spawn(argv, env []string, dir string, try func(path string, argv []string) error) error {
	name := argv[0]
	shown := name[:min(len(name), 200)]
	if name == "" {
		return &wire.Failure{Code: 127, Message: "the command is empty"}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &wire.Failure{Code: 125, Message: fmt.Sprintf("the directory %q does not exist in the sandbox", dir)}
	}
	failure := &wire.Failure{Code: 127, Message: fmt.Sprintf("%q: command not found in the sandbox", shown)}
	for _, path := range candidates(name, dir, env) {
		info, err := os.Stat(path)
		if err != nil {
			if !os.IsNotExist(err) && !errors.Is(err, unix.ENOTDIR) {
				failure = notExecutable(shown, err)
			}
			continue
		}
		if info.IsDir() {
			failure = &wire.Failure{Code: 126, Message: fmt.Sprintf("%q is a directory", shown)}
			continue
		}
		err = try(path, argv)
		if errors.Is(err, unix.ENOEXEC) {
			err = try("/bin/sh", append([]string{"sh", path}, argv[1:]...))
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EACCES):
			failure = notExecutable(shown, err)
		case errors.Is(err, unix.ENOENT):
			failure = &wire.Failure{Code: 127, Message: fmt.Sprintf("%q: its interpreter does not exist in the sandbox", shown)}
		default:
			return notExecutable(shown, err)
		}
	}
	return failure
}

func notExecutable(name string, err error) *wire.Failure {
	var f *wire.Failure
	if errors.As(err, &f) {
		return f // it was not tried
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		err = no
	}
	return &wire.Failure{Code: 126, Message: fmt.Sprintf("%q cannot be executed: %v", name, err)}
}
