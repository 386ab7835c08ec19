package confine

import (
	"testing"

	"golang.org/x/sys/unix"
)

const junk = 0xdeadbeef << 32 // what the kernel does not look at, nor may we

// argumentCases are calls whose arguments decide, with the strict filter.
var argumentCases = []struct {
	call string
	args []uint64
	want string
}{
	{"clone", []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, "allow"},
	{"clone", []uint64{junk | unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_SETTLS}, "allow"},
	{"clone", []uint64{unix.CLONE_NEWNS}, "EPERM"},
	{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, "EPERM"},
	{"clone", []uint64{junk | unix.CLONE_NEWNET}, "EPERM"},
	{"clone", []uint64{unix.CLONE_NEWPID}, "EPERM"},
	{"clone", []uint64{unix.CLONE_NEWIPC}, "EPERM"},
	{"clone", []uint64{unix.CLONE_NEWUTS}, "EPERM"},
	{"clone", []uint64{unix.CLONE_NEWCGROUP}, "EPERM"},

	{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, "allow"},
	{"socket", []uint64{junk | unix.AF_UNIX, unix.SOCK_STREAM}, "allow"},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, 17}, "allow"},
	{"socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM}, "allow"},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, "allow"},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, junk | unix.NETLINK_ROUTE}, "allow"},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "EPROTONOSUPPORT"},
	{"socket", []uint64{junk | unix.AF_NETLINK, unix.SOCK_RAW, junk | unix.NETLINK_AUDIT}, "EPROTONOSUPPORT"},
	{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, "EPERM"},
	{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, "EPERM"},
	{"socket", []uint64{junk | unix.AF_VSOCK, unix.SOCK_STREAM}, "EPERM"},
	{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, "EPERM"},
	{"socket", []uint64{unix.AF_BLUETOOTH}, "EPERM"},
	{"socket", []uint64{0xffffffff}, "EPERM"},
	{"socketpair", []uint64{unix.AF_UNIX}, "allow"},
	{"socketpair", []uint64{junk | unix.AF_UNIX}, "allow"},
	{"socketpair", []uint64{unix.AF_TIPC}, "EPERM"},
	{"socketpair", []uint64{unix.AF_INET}, "EPERM"},

	{"ioctl", []uint64{0, unix.TCGETS}, "allow"},
	{"ioctl", []uint64{0, unix.TIOCGWINSZ}, "allow"},
	{"ioctl", []uint64{0, unix.TIOCSCTTY}, "allow"},
	{"ioctl", []uint64{0, unix.TIOCSTI}, "EPERM"},
	{"ioctl", []uint64{0, junk | unix.TIOCSTI}, "EPERM"},
	{"ioctl", []uint64{0, 1<<32 | unix.TIOCSTI}, "EPERM"},
	{"ioctl", []uint64{0, junk | unix.TIOCLINUX}, "EPERM"},
	{"ioctl", []uint64{0, unix.TIOCSETD}, "EPERM"},
	{"ioctl", []uint64{0, unix.TIOCCONS}, "EPERM"},

	{"fcntl", []uint64{3, unix.F_SETFL, unix.O_NONBLOCK}, "allow"},
	{"fcntl", []uint64{3, unix.F_GETLEASE}, "allow"},
	{"fcntl", []uint64{3, unix.F_SETLEASE, unix.F_WRLCK}, "EPERM"},
	{"fcntl", []uint64{3, junk | unix.F_SETLEASE, unix.F_RDLCK}, "EPERM"},
	{"fcntl", []uint64{3, 1040}, "EPERM"}, // F_SETDELEG

	{"personality", []uint64{0x20008}, "allow"},
	{"personality", []uint64{0xffffffff}, "allow"},
	{"personality", []uint64{0xffffffffffffffff}, "allow"},
	{"personality", []uint64{junk | 0x0040000}, "EPERM"}, // ADDR_NO_RANDOMIZE
	{"personality", []uint64{0x0400000}, "EPERM"},        // READ_IMPLIES_EXEC
}

// setIDCases try to make a file with a set-id bit.
var setIDCases = []struct {
	call string
	args []uint64
	want string
}{
	{"chmod", []uint64{0, 0o755}, "allow"},
	{"chmod", []uint64{0, 0o1777}, "allow"},
	{"chmod", []uint64{0, 0o4755}, "EPERM"},
	{"chmod", []uint64{0, junk | 0o2755}, "EPERM"},
	{"chmod", []uint64{0o6000, junk | 0o755}, "allow"},
	{"fchmod", []uint64{3, 0o4000}, "EPERM"},
	{"fchmod", []uint64{0o6000, 0o644}, "allow"},
	{"fchmodat", []uint64{0, 0, 0o6755}, "EPERM"},
	{"fchmodat", []uint64{0, 0o6000, 0o755}, "allow"},
	{"fchmodat2", []uint64{0, 0, 0o4755}, "EPERM"},
	{"fchmodat2", []uint64{0, 0o6000, 0o755, 0o6000}, "allow"},
	{"mknod", []uint64{0, unix.S_IFREG | 0o4755}, "EPERM"},
	{"mknod", []uint64{0, unix.S_IFIFO | 0o600}, "allow"},
	{"mknodat", []uint64{0, 0, unix.S_IFREG | 0o2755}, "EPERM"},
	{"mknodat", []uint64{0, 0, unix.S_IFCHR | 0o666, 0o6000}, "allow"},
	{"creat", []uint64{0, 0o4755}, "EPERM"},
	{"creat", []uint64{0, 0o644}, "allow"},
	{"open", []uint64{0, unix.O_RDONLY, 0o6777}, "allow"},
	{"open", []uint64{0, unix.O_DIRECTORY | unix.O_CLOEXEC, 0o6777}, "allow"},
	{"open", []uint64{0, unix.O_CREAT | unix.O_WRONLY, 0o644}, "allow"},
	{"open", []uint64{0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, "EPERM"},
	{"open", []uint64{0, junk | unix.O_CREAT, junk | 0o2755}, "EPERM"},
	{"openat", []uint64{0, 0, unix.O_RDWR, 0xffffffff}, "allow"},
	{"openat", []uint64{0, 0, unix.O_CREAT | unix.O_EXCL, 0o755}, "allow"},
	{"openat", []uint64{0, 0, unix.O_CREAT, 0o4755}, "EPERM"},
	{"openat", []uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR, 0o2755}, "EPERM"},
	{"openat", []uint64{0, 0, 0o20000000 | unix.O_RDWR, 0o2755}, "EPERM"}, // O_TMPFILE's own bit
	{"openat", []uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR, 0o600}, "allow"},
}

func TestArguments(t *testing.T) {
	verdicts(t, SeccompOptions{}, func(t *testing.T, call func(string, ...uint64) string) {
		for _, c := range append(argumentCases, setIDCases...) {
			if got := call(c.call, c.args...); got != c.want && got != "none" {
				t.Errorf("%s %#x: %s, want %s", c.call, c.args, got, c.want)
			}
		}
	})
}

// TestOptions: each option opens what it is for and nothing else.
func TestOptions(t *testing.T) {
	verdicts(t, SeccompOptions{Nesting: true}, func(t *testing.T, call func(string, ...uint64) string) {
		for _, c := range append(argumentCases, setIDCases...) {
			want := c.want
			if c.call == "clone" {
				want = "allow"
			}
			if got := call(c.call, c.args...); got != want && got != "none" {
				t.Errorf("nesting: %s %#x: %s, want %s", c.call, c.args, got, want)
			}
		}
	})
	verdicts(t, SeccompOptions{SetID: true}, func(t *testing.T, call func(string, ...uint64) string) {
		for _, c := range argumentCases {
			if got := call(c.call, c.args...); got != c.want && got != "none" {
				t.Errorf("set-id: %s %#x: %s, want %s", c.call, c.args, got, c.want)
			}
		}
		for _, c := range setIDCases {
			if got := call(c.call, c.args...); got != "allow" && got != "none" {
				t.Errorf("set-id: %s %#x: %s, want allow", c.call, c.args, got)
			}
		}
	})
}

func TestUserNamespacesOnly(t *testing.T) {
	verdicts(t, SeccompOptions{UserNamespaces: true}, func(t *testing.T, call func(string, ...uint64) string) {
		for flags, want := range map[uint64]string{
			uint64(unix.CLONE_NEWUSER) | uint64(unix.SIGCHLD):     call("clone", uint64(unix.SIGCHLD)),
			uint64(unix.CLONE_NEWUSER) | uint64(unix.CLONE_NEWNS): call("mount"),
			uint64(unix.CLONE_NEWNET):                             call("mount"),
		} {
			if got := call("clone", flags); got != want {
				t.Errorf("clone(%#x): got %s, want %s", flags, got, want)
			}
		}
		if got, want := call("unshare", uint64(unix.CLONE_NEWUSER)), call("mount"); got != want {
			t.Errorf("unshare: got %s, want %s", got, want)
		}
	})
}
