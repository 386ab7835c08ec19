package confine

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// A probe is a system call that cannot succeed, so that it has no effect, and
// whose error tells who stopped it: EFAULT, EBADF or EINVAL come from the
// kernel proper, the error in want only from the filter.
type probe struct {
	call string
	args [6]uintptr
	want unix.Errno
}

const (
	bad   = 8           // an address in the page that is never mapped
	noFD  = ^uintptr(0) // -1
	above = 1 << 32     // a bit that the kernel ignores
)

var probes = []probe{
	{"clone3", [6]uintptr{bad, 0}, unix.ENOSYS},
	{"openat2", [6]uintptr{noFD, bad, bad, 0}, unix.ENOSYS},
	{"keyctl", [6]uintptr{9999}, unix.ENOSYS},
	{"add_key", [6]uintptr{bad, bad}, unix.ENOSYS},
	{"request_key", [6]uintptr{bad, bad}, unix.ENOSYS},
	{"io_uring_setup", [6]uintptr{1, bad}, unix.EPERM},
	{"io_uring_enter", [6]uintptr{noFD}, unix.EPERM},
	{"userfaultfd", [6]uintptr{0xffff}, unix.EPERM},
	{"bpf", [6]uintptr{0, bad, 64}, unix.EPERM},
	{"perf_event_open", [6]uintptr{bad}, unix.EPERM},
	{"unshare", [6]uintptr{1}, unix.EPERM},
	{"setns", [6]uintptr{noFD}, unix.EPERM},
	{"mount", [6]uintptr{bad, bad, bad}, unix.EPERM},
	{"mount_setattr", [6]uintptr{noFD, bad, 0xffff}, unix.EPERM},
	{"open_tree", [6]uintptr{noFD, bad, 0}, unix.EPERM},
	{"pidfd_getfd", [6]uintptr{noFD, noFD}, unix.EPERM},
	{"lsm_list_modules", [6]uintptr{bad, bad, 1}, unix.EPERM},
	{"clone", [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS}, unix.EPERM},
	{"clone", [6]uintptr{above | unix.CLONE_NEWNS | unix.CLONE_FS}, unix.EPERM},
	{"socket", [6]uintptr{unix.AF_ALG, 99}, unix.EPERM},
	{"socket", [6]uintptr{unix.AF_VSOCK, 99}, unix.EPERM},
	{"socket", [6]uintptr{above | unix.AF_VSOCK, 99}, unix.EPERM},
	{"socket", [6]uintptr{unix.AF_PACKET, 99}, unix.EPERM},
	{"socket", [6]uintptr{unix.AF_NETLINK, 99, unix.NETLINK_NETFILTER}, unix.EPROTONOSUPPORT},
	{"socketpair", [6]uintptr{unix.AF_INET, unix.SOCK_STREAM, 0, bad}, unix.EPERM},
	{"ioctl", [6]uintptr{noFD, unix.TIOCSTI}, unix.EPERM},
	{"ioctl", [6]uintptr{noFD, above | unix.TIOCSTI}, unix.EPERM},
	{"ioctl", [6]uintptr{noFD, unix.TIOCLINUX}, unix.EPERM},
	{"chmod", [6]uintptr{bad, 0o4755}, unix.EPERM},
	{"fchmod", [6]uintptr{noFD, 0o2755}, unix.EPERM},
	{"fchmodat", [6]uintptr{noFD, bad, 0o4755}, unix.EPERM},
	{"fchmodat2", [6]uintptr{noFD, bad, 0o4755, 0}, unix.EPERM},
	{"mknodat", [6]uintptr{noFD, bad, unix.S_IFREG | 0o4755}, unix.EPERM},
	{"creat", [6]uintptr{bad, 0o4755}, unix.EPERM},
	{"open", [6]uintptr{bad, unix.O_CREAT, 0o4755}, unix.EPERM},
	{"openat", [6]uintptr{noFD, bad, unix.O_CREAT, 0o4755}, unix.EPERM},
	{"openat", [6]uintptr{noFD, bad, unix.O_TMPFILE | unix.O_RDWR, 0o2755}, unix.EPERM},

	// And these must reach the kernel.
	{"chmod", [6]uintptr{bad, 0o1755}, unix.EFAULT},
	{"fchmodat2", [6]uintptr{noFD, bad, 0o755, 0}, unix.EFAULT},
	{"openat", [6]uintptr{noFD, bad, unix.O_RDONLY, 0o6777}, unix.EFAULT},
	{"openat", [6]uintptr{noFD, bad, unix.O_CREAT, 0o755}, unix.EFAULT},
	{"ioctl", [6]uintptr{noFD, unix.TIOCGWINSZ}, unix.EBADF},
	{"clone", [6]uintptr{unix.CLONE_THREAD}, unix.EINVAL},
	{"socket", [6]uintptr{unix.AF_UNIX, 99}, unix.EINVAL},
	{"socket", [6]uintptr{above | unix.AF_INET6, 99}, unix.EINVAL},
	{"prctl", [6]uintptr{99999}, unix.EINVAL},
	{"seccomp", [6]uintptr{99999}, unix.EINVAL},
	{"landlock_restrict_self", [6]uintptr{noFD, 0xffff}, unix.EINVAL},
	{"memfd_create", [6]uintptr{bad}, unix.EFAULT},
	{"process_vm_readv", [6]uintptr{0, bad, 1, bad, 1, 1}, unix.EINVAL},
	{"ptrace", [6]uintptr{99999, 0x7fffffff}, unix.ESRCH},
}

// try makes the calls on this thread.
func try(numbers map[string]int) []unix.Errno {
	errs := make([]unix.Errno, len(probes))
	for i, p := range probes {
		if nr, ok := numbers[p.call]; ok {
			_, _, errs[i] = unix.RawSyscall6(uintptr(nr), p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5])
		}
	}
	return errs
}

func TestProbes(t *testing.T) {
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	var control, confined, beside []unix.Errno
	if err := onThread(func() error {
		defer func() { control = try(info.SyscallNames) }()
		return unfiltered()
	}); err != nil {
		t.Fatal(err)
	}
	if err := onThread(func() error {
		if err := lockdown("/dev"); err != nil {
			return err
		}
		confined = try(info.SyscallNames)
		// While this thread is confined and alive, another one.
		return onThread(func() error {
			defer func() { beside = try(info.SyscallNames) }()
			return unfiltered()
		})
	}); err != nil {
		t.Fatal(err)
	}
	evidence := 0
	for i, p := range probes {
		if _, ok := info.SyscallNames[p.call]; !ok {
			continue
		}
		filtered := p.want == unix.EPERM || p.want == unix.ENOSYS || p.want == unix.EPROTONOSUPPORT
		switch {
		case beside[i] != control[i]:
			t.Errorf("%s %#x: %v beside a confined thread, %v before it", p.call, p.args, beside[i], control[i])
		case filtered && control[i] == p.want, control[i] == unix.ENOSYS:
			t.Logf("%s %#x: unconfined it is %v too, proves nothing here", p.call, p.args, control[i])
		case !filtered && control[i] != p.want:
			t.Errorf("%s %#x: %v unconfined, so %v proves nothing", p.call, p.args, control[i], p.want)
		case confined[i] != p.want:
			t.Errorf("%s %#x: %v, want %v (unconfined %v)", p.call, p.args, confined[i], p.want, control[i])
		case filtered:
			evidence++
		}
	}
	if evidence < 20 {
		t.Errorf("only %d refusals were shown to be the filter's", evidence)
	}
}

// TestSockets opens the families that programs need, for real.
func TestSockets(t *testing.T) {
	err := onThread(func() error {
		if err := lockdown("/dev"); err != nil {
			return err
		}
		var errs []error
		for _, s := range [][3]int{{unix.AF_UNIX, unix.SOCK_STREAM, 0}, {unix.AF_INET, unix.SOCK_STREAM, 0},
			{unix.AF_INET6, unix.SOCK_DGRAM, 0}, {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}} {
			fd, err := unix.Socket(s[0], s[1]|unix.SOCK_CLOEXEC, s[2])
			if err == nil {
				err = unix.Close(fd)
			}
			if !errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestInherited: the program that a confined thread starts is confined, and a
// thread beside it is not.
func TestInherited(t *testing.T) {
	var program, beside status
	err := onThread(func() error {
		if err := lockdown("/dev"); err != nil {
			return err
		}
		out, err := exec.Command("/bin/cat", "/proc/self/status").Output()
		program = parseStatus(string(out))
		return errors.Join(err, onThread(func() (err error) {
			beside, err = threadStatus()
			return err
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	free, err := threadStatus()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": strings.Repeat("0", 16)} {
		if program[key] != want {
			t.Errorf("program: %s is %q, want %q", key, program[key], want)
		}
		if beside[key] != free[key] {
			t.Errorf("thread beside: %s is %q, want %q", key, beside[key], free[key])
		}
	}
}

// TestSeccompNeedsPrivilege: the kernel's condition comes back as an error.
func TestSeccompNeedsPrivilege(t *testing.T) {
	if s, _ := threadStatus(); s["NoNewPrivs"] == "1" {
		t.Skip("has no_new_privs")
	}
	err := onThread(func() error {
		if err := setCapabilities(0); err != nil { // if there are any
			t.Error(err)
		}
		return Seccomp(SeccompOptions{})
	})
	if !errors.Is(err, unix.EACCES) {
		t.Errorf("%v, want EACCES", err)
	}
}
