package jail

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"github.com/cofferhq/coffer/internal/confine"
	"golang.org/x/sys/unix"
)

// try does what its arguments say and prints how it went, a line each: "ok", or the name
// of an error. Arguments come as "name:argument".
func try(what []string) int {
	for _, w := range what {
		name, arg := w, ""
		if i := indexByte(w, ':'); i >= 0 {
			name, arg = w[:i], w[i+1:]
		}
		do, known := tries[name]
		if !known {
			fmt.Println("unknown try", name)
			return 1
		}
		fmt.Println(verdict(do(arg)))
	}
	return 0
}

func indexByte(s string, b byte) int {
	for i := range len(s) {
		if s[i] == b {
			return i
		}
	}
	return -1
}

func verdict(err error) string {
	var no unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	}
	return err.Error()
}

// tries are what can be tried, on a path, a process id or an address.
var tries = map[string]func(arg string) error{
	"write":  func(p string) error { return touchWith(p, os.O_WRONLY|os.O_APPEND) },
	"create": func(p string) error { return touchWith(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL) },
	"read":   func(p string) error { _, err := os.ReadFile(p); return err },
	"open":   func(p string) error { return touchWith(p, os.O_RDONLY) },
	"list":   func(p string) error { _, err := os.ReadDir(p); return err },
	"mkdir":  func(p string) error { return os.Mkdir(p, 0o755) },
	"remove": os.Remove,
	"rename": func(p string) error { return os.Rename(p, p+".moved") },
	"link":   func(p string) error { return os.Link(p, filepath.Join(here(), "linked")) },
	"move":   func(p string) error { return os.Rename(p, filepath.Join(filepath.Dir(p), "sub", "moved")) },

	"truncate":      func(p string) error { return unix.Truncate(p, 0) },
	"open-truncate": func(p string) error { return touchWith(p, os.O_RDONLY|os.O_TRUNC) },

	"chmod":     func(p string) error { return unix.Chmod(p, 0o600) },
	"setuid":    func(p string) error { return unix.Chmod(p, 0o4755) },
	"fchmod":    byDescriptor(func(fd int) error { return unix.Fchmod(fd, 0o600) }),
	"proc-self": byDescriptor(func(fd int) error { return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o600) }),
	"chown":     func(p string) error { return unix.Chown(p, os.Getuid(), os.Getgid()) },
	"lchown":    func(p string) error { return unix.Lchown(p, os.Getuid(), os.Getgid()) },
	"fchown":    byDescriptor(func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) }),
	"utimes":    func(p string) error { return unix.Utimes(p, []unix.Timeval{{Sec: 1}, {Sec: 2}}) },
	"utimensat": func(p string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Sec: 1}, {Sec: 2}}, 0)
	},
	"futimens":    byDescriptor(futimens),
	"touch":       func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, nil, 0) },
	"setxattr":    func(p string) error { return unix.Setxattr(p, "user.coffer", []byte("x"), 0) },
	"fsetxattr":   byDescriptor(func(fd int) error { return unix.Fsetxattr(fd, "user.coffer2", []byte("x"), 0) }),
	"removexattr": func(p string) error { return unix.Removexattr(p, "user.there") },
	"setflags":    byDescriptor(setFlag),
	"through-link": func(p string) error {
		link := filepath.Join(here(), "link")
		_ = os.Remove(link)
		return errors.Join(os.Symlink(p, link), unix.Chmod(link, 0o600))
	},

	"connect":  func(p string) error { return dialUnix("unix", p) },
	"abstract": func(name string) error { return dialUnix("unix", "@"+name) },
	"sendto":   func(p string) error { return sendTo(p, unix.SYS_SOCKET) },
	"pair":     func(p string) error { return sendTo(p, unix.SYS_SOCKETPAIR) },
	"listen":   listenUnix,
	"tcp":      func(addr string) error { return dial("tcp", addr) },
	"udp":      func(addr string) error { return dial("udp", addr) },

	"kill":    func(pid string) error { return unix.Kill(number(pid), unix.SIGTERM) },
	"ptrace":  func(pid string) error { return unix.PtraceAttach(number(pid)) },
	"environ": func(pid string) error { _, err := os.ReadFile("/proc/" + pid + "/environ"); return err },
	"memory": func(pid string) error {
		buf := make([]byte, 8)
		ours := []unix.Iovec{{Base: &buf[0], Len: 8}}
		_, err := unix.ProcessVMReadv(number(pid), ours, []unix.RemoteIovec{{Base: 8, Len: 8}}, 0)
		if err == unix.EFAULT { // nothing is there, but looking was allowed
			return nil
		}
		return err
	},

	"unmark": func(string) error { return unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: 1, Max: 1}, nil) },
	"unmarked": func(string) error {
		if marked, err := confine.Marked(os.Getpid()); marked || err != nil {
			return unix.EPERM
		}
		return nil
	},

	"tiocsti":   func(string) error { return terminalCall(unix.TIOCSTI) },
	"tioclinux": func(string) error { return terminalCall(unix.TIOCLINUX) },
	"tiocsti64": func(string) error { return terminalCall(1<<32 | unix.TIOCSTI) },
	"int80":     func(string) error { return thirtyTwo() },
	"pty":       func(string) error { return openPTY() },
	"run":       func(p string) error { return exec.Command(p).Run() },
}

func here() string {
	dir, _ := os.Getwd()
	return dir
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func touchWith(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// byDescriptor does something with a file that is open to read.
func byDescriptor(f func(fd int) error) func(string) error {
	return func(path string) error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return f(fd)
	}
}

func futimens(fd int) error {
	ts := [2]unix.Timespec{{Sec: 1}, {Sec: 2}}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// setFlag marks a file as not to be dumped, which is the owner's right.
func setFlag(fd int) error {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|0x40))
}

func dialUnix(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	return c.Close()
}

// sendTo sends a datagram to a socket's path, from a socket of its own or half of a pair.
func sendTo(path string, call uintptr) error {
	fds := [2]int32{-1, -1}
	r, _, errno := unix.Syscall6(call, unix.AF_UNIX, unix.SOCK_DGRAM, 0, uintptr(unsafe.Pointer(&fds)), 0, 0)
	if errno != 0 {
		return errno
	}
	fd := int(fds[0])
	if call == unix.SYS_SOCKET {
		fd = int(r)
	}
	return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: path})
}

// listenUnix makes a socket and connects to it.
func listenUnix(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer l.Close()
	return dialUnix("unix", path)
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Minute)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

// terminalCall makes a call on no terminal at all: the filter answers before the kernel
// finds that out.
func terminalCall(request uint) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, ^uintptr(0), uintptr(request), uintptr(unsafe.Pointer(&[8]byte{})))
	if errno == unix.EBADF {
		return nil
	}
	return errno
}

func openPTY() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	return touchWith(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY)
}
