package guest

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// rootCapabilities are what root of the sandbox keeps, over files and processes of
// the sandbox's own ids. None of them reaches a mount, a device or the network.
// CAP_SETFCAP comes with the right to set set-user-id bits: on a file that others on
// the host can execute, a file capability is the same thing.
var rootCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
	unix.CAP_SYS_CHROOT, unix.CAP_MKNOD, unix.CAP_AUDIT_WRITE,
}

// thread is what the thread gives up that starts programs as the user, or as root. That of root
// keeps what it takes to make a user namespace: capabilities, and that one flag of clone.
func (b *Boot) thread(root bool) *confine.Thread {
	t := &confine.Thread{Seccomp: confine.SeccompOptions{Nesting: b.Nesting, NoAllocate: b.NoAllocate}}
	write := b.Plan.Writable
	if root {
		t.KeepAll, t.Seccomp.UserNamespaces, t.Seccomp.SetID = true, true, b.SetID
		write = nil
		entries, _ := os.ReadDir("/")
		for _, e := range entries {
			if e.IsDir() && "/"+e.Name() != rootfs.Own && e.Name() != "sys" {
				write = append(write, "/"+e.Name())
			}
		}
	} else if b.Nesting && b.UID == 0 {
		// Without CAP_SETFCAP the kernel lets nobody map id 0 into a user namespace. It would also
		// allow file capabilities, so no extended attribute may be set.
		t.Keep, t.Seccomp.NoExtended = []int{unix.CAP_SETFCAP}, true
	}
	if b.Landlock && !b.Nesting {
		t.Landlock = &confine.LandlockRules{Write: write}
	}
	return t
}

// launcher starts programs from a thread of its own, which is confined for good.
type launcher struct {
	jobs chan func()
}

func newLauncher(b *Boot, root bool) (*launcher, error) {
	l := &launcher{jobs: make(chan func())}
	started := make(chan error)
	go OffMain(func() {
		// Threads share a umask. From here on this one's is that of the program to be
		// started; the agent keeps its own, whatever it makes meanwhile.
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_FS))
		if err == nil {
			err = b.showLimits()
		}
		if err == nil {
			err = b.thread(root).Confine()
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

// processors are those that programs run on, nil for all: runtimes count them to size
// themselves. Sandboxes begin at different ones. The limit itself is the control group's, so
// a program may choose others.
func (b *Boot) processors() *unix.CPUSet {
	var all, some unix.CPUSet
	if b.Processors <= 0 || unix.SchedGetaffinity(0, &all) != nil || all.Count() <= b.Processors {
		return nil
	}
	var list []int
	for i := 0; len(list) < all.Count(); i++ {
		if all.IsSet(i) {
			list = append(list, i)
		}
	}
	first := rand.IntN(len(list))
	for i := range b.Processors {
		some.Set(list[(first+i)%len(list)])
	}
	return &some
}

// showLimits has programs of the calling thread see the limits as their own: the number of
// processors, and their control group as the topmost one in /proc/self/cgroup.
func (b *Boot) showLimits() error {
	if some := b.processors(); some != nil {
		if err := unix.SchedSetaffinity(0, some); err != nil {
			return fmt.Errorf("choose processors: %w", err)
		}
	}
	if b.Grouped {
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("make a cgroup namespace: %w", err)
		}
	}
	return nil
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

// Candidates lists the files that a command name may mean.
func Candidates(name, dir string, env []string) []string {
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
	for _, path := range Candidates(name, dir, env) {
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
