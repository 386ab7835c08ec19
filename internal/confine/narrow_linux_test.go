package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// What options that narrow the filter change, and that they change nothing else.
var narrowed = []struct {
	name    string
	options SeccompOptions
	call    string
	args    []uint64
	want    string
}{
	{"NoUnix", SeccompOptions{NoUnix: true}, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, "EPERM"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socket", []uint64{junk | unix.AF_UNIX, unix.SOCK_STREAM}, "EPERM"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, "allow"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, "allow"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, "allow"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, "EPERM"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socketpair", []uint64{unix.AF_UNIX, junk | unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, "EPERM"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socketpair", []uint64{unix.AF_UNIX, unix.SOCK_RAW}, "EPERM"},
	{"NoUnix", SeccompOptions{NoUnix: true}, "socketpair", []uint64{unix.AF_INET, unix.SOCK_STREAM}, "EPERM"},

	{"NoInternet", SeccompOptions{NoInternet: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, "EPERM"},
	{"NoInternet", SeccompOptions{NoInternet: true}, "socket", []uint64{junk | unix.AF_INET6, unix.SOCK_DGRAM}, "EPERM"},
	{"NoInternet", SeccompOptions{NoInternet: true}, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, "allow"},
	{"NoInternet", SeccompOptions{NoInternet: true}, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, "allow"},

	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, "allow"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{junk | unix.AF_INET6, junk | unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, "allow"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{junk | unix.AF_INET6, junk | unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, "allow"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, "allow"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "sendto", []uint64{3, 0, 0, unix.MSG_NOSIGNAL}, "allow"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "sendto", []uint64{3, 0, 0, junk | unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "sendmsg", []uint64{3, 0, unix.MSG_NOSIGNAL}, "allow"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "sendmsg", []uint64{3, 0, unix.MSG_FASTOPEN}, "EPERM"},
	{"OnlyTCP", SeccompOptions{OnlyTCP: true}, "sendmmsg", []uint64{3, 0, 1, unix.MSG_FASTOPEN}, "EPERM"},
	{"not OnlyTCP", SeccompOptions{}, "sendto", []uint64{3, 0, 0, unix.MSG_FASTOPEN}, "allow"},

	{"NoTruncate", SeccompOptions{NoTruncate: true}, "truncate", nil, "EPERM"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "ftruncate", nil, "allow"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, unix.O_RDONLY | unix.O_TRUNC}, "EPERM"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, junk | unix.O_RDONLY | unix.O_TRUNC | unix.O_CREAT, 0o644}, "EPERM"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, unix.O_ACCMODE | unix.O_TRUNC}, "EPERM"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "open", []uint64{0, unix.O_TRUNC}, "EPERM"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, unix.O_WRONLY | unix.O_TRUNC}, "allow"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, unix.O_RDWR | unix.O_TRUNC}, "allow"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, unix.O_WRONLY | unix.O_TRUNC | unix.O_CREAT, 0o4755}, "EPERM"},
	{"NoTruncate", SeccompOptions{NoTruncate: true}, "openat", []uint64{0, 0, unix.O_RDONLY}, "allow"},
	{"NoTruncate, SetID", SeccompOptions{NoTruncate: true, SetID: true}, "openat", []uint64{0, 0, unix.O_TRUNC}, "EPERM"},
	{"NoTruncate, SetID", SeccompOptions{NoTruncate: true, SetID: true}, "openat", []uint64{0, 0, unix.O_CREAT, 0o4755}, "allow"},

	{"IgnoreSetID", SeccompOptions{IgnoreSetID: true}, "chmod", []uint64{0, 0o4755}, "done"},
	{"IgnoreSetID", SeccompOptions{IgnoreSetID: true}, "fchmodat", []uint64{0, 0, junk | 0o2755}, "done"},
	{"IgnoreSetID", SeccompOptions{IgnoreSetID: true}, "chmod", []uint64{0, 0o755}, "allow"},
	{"IgnoreSetID", SeccompOptions{IgnoreSetID: true}, "openat", []uint64{0, 0, unix.O_CREAT, 0o4755}, "EPERM"},
	{"IgnoreSetID, SetID", SeccompOptions{IgnoreSetID: true, SetID: true}, "chmod", []uint64{0, 0o4755}, "allow"},
	{"OneID", SeccompOptions{OneID: true}, "chown", nil, "done"},
	{"OneID", SeccompOptions{OneID: true}, "fchownat", nil, "done"},
	{"OneID", SeccompOptions{OneID: true}, "utimensat", nil, "allow"},
	{"NoExtended", SeccompOptions{NoExtended: true}, "setxattr", nil, "EOPNOTSUPP"},
	{"NoExtended", SeccompOptions{NoExtended: true}, "lsetxattr", nil, "EOPNOTSUPP"},
	{"NoExtended", SeccompOptions{NoExtended: true}, "fsetxattr", nil, "EOPNOTSUPP"},
	{"NoExtended", SeccompOptions{NoExtended: true}, "setxattrat", nil, "EOPNOTSUPP"},
	{"NoExtended", SeccompOptions{NoExtended: true}, "getxattr", nil, "allow"},
	{"NoExtended, SetID", SeccompOptions{NoExtended: true, Nesting: true, SetID: true}, "setxattr", nil, "EOPNOTSUPP"},

	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, 0, 0, 4096}, "EOPNOTSUPP"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, junk | unix.FALLOC_FL_KEEP_SIZE}, "EOPNOTSUPP"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, unix.FALLOC_FL_ZERO_RANGE}, "EOPNOTSUPP"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, unix.FALLOC_FL_UNSHARE_RANGE}, "EOPNOTSUPP"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_ZERO_RANGE}, "EOPNOTSUPP"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, junk | unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE}, "allow"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "fallocate", []uint64{3, unix.FALLOC_FL_COLLAPSE_RANGE}, "allow"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "ftruncate", nil, "allow"}, // makes a hole
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "ioctl", []uint64{3, 0x40305828}, "ENOTTY"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "ioctl", []uint64{3, junk | 0x40305839}, "ENOTTY"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "ioctl", []uint64{3, 0x401c5820}, "ENOTTY"},
	{"NoAllocate", SeccompOptions{NoAllocate: true}, "ioctl", []uint64{3, unix.FS_IOC_GETFLAGS}, "allow"},
	{"NoAllocate, Nesting", SeccompOptions{NoAllocate: true, Nesting: true}, "fallocate", []uint64{3, 0}, "EOPNOTSUPP"},
	{"not NoAllocate", SeccompOptions{}, "fallocate", []uint64{3, 0}, "allow"},
}

func TestNarrowed(t *testing.T) {
	for _, c := range narrowed {
		verdicts(t, c.options, func(t *testing.T, call func(string, ...uint64) string) {
			got := call(c.call, c.args...)
			if got == fmt.Sprintf("%#x", uint32(retDone)) {
				got = "done"
			}
			if got != c.want && got != "none" {
				t.Errorf("%s: %s %#x: %s, want %s", c.name, c.call, c.args, got, c.want)
			}
		})
	}
}

// onThreadWith does something under Landlock, and the same without.
func onThreadWith(t *testing.T, r LandlockRules, do func() error) (confined, free error) {
	t.Helper()
	needLandlock(t, 1)
	err := onThread(func() error {
		if err := NoNewPrivs(); err != nil {
			return err
		}
		if err := Landlock(r); err != nil {
			return err
		}
		confined = do()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return confined, do()
}

func TestLandlockReading(t *testing.T) {
	dir := prepare(t)
	rules := LandlockRules{Write: []string{dir + "/in", "/dev/null"}, Read: []string{dir + "/other", "/usr", "/lib", "/lib64", "/bin", "/dev"}, List: []string{dir}}
	for what, c := range map[string]struct {
		want unix.Errno
		do   func() error
	}{
		"read what is listed":       {0, func() error { _, err := os.ReadFile(dir + "/other/a"); return err }},
		"read what is not":          {unix.EACCES, func() error { _, err := os.ReadFile(dir + "/out/a"); return err }},
		"read what can be written":  {unix.EACCES, func() error { _, err := os.ReadFile(dir + "/in/a"); return err }},
		"write what can be written": {0, func() error { return appendTo(dir + "/in/a") }},
		"list":                      {0, func() error { _, err := os.ReadDir(dir + "/out"); return err }},
		"list elsewhere":            {unix.EACCES, func() error { _, err := os.ReadDir("/etc"); return err }},
		"execute":                   {0, func() error { return exec.Command("/bin/true").Run() }},
	} {
		confined, free := onThreadWith(t, rules, c.do)
		if c.want == 0 && confined != nil || c.want != 0 && !errors.Is(confined, c.want) {
			t.Errorf("%s: %v, want %v", what, confined, c.want)
		}
		if free != nil {
			t.Errorf("%s: %v without Landlock, so it proves nothing", what, free)
		}
	}
}

func TestLandlockScoped(t *testing.T) {
	needLandlock(t, 6) // which knows of scopes
	name := fmt.Sprintf("@coffer-confine-%d", os.Getpid())
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	victim := exec.Command("/bin/sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	for what, do := range map[string]func() error{
		"abstract socket": func() error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		},
		"signal": func() error { return unix.Kill(victim.Process.Pid, unix.SIGCONT) },
	} {
		confined, free := onThreadWith(t, LandlockRules{Scoped: true}, do)
		if !errors.Is(confined, unix.EPERM) || free != nil {
			t.Errorf("%s: %v, and %v without", what, confined, free)
		}
		// An older version leaves it out, and takes no offence.
		if older, _ := onThreadWith(t, LandlockRules{Scoped: true, NoSockets: true, NoPorts: true, ABI: 3}, do); older != nil {
			t.Errorf("%s, third version: %v", what, older)
		}
	}
}

func TestLandlockPorts(t *testing.T) {
	needLandlock(t, 4) // which knows of the network
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	confined, free := onThreadWith(t, LandlockRules{NoPorts: true}, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	})
	if !errors.Is(confined, unix.EACCES) || free != nil {
		t.Errorf("%v, and %v without", confined, free)
	}
}

func TestLandlockNoLinks(t *testing.T) {
	needLandlock(t, 1)
	dir := prepare(t)
	if err := os.Symlink(dir+"/in", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir + "/in": nil, dir + "/link": unix.ELOOP, dir + "/link/a": unix.ELOOP} {
		err := onThread(func() error {
			if err := NoNewPrivs(); err != nil {
				return err
			}
			return Landlock(LandlockRules{Write: []string{path}, NoLinks: true})
		})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// TestLandlockAttributes: what newer kernels know is asked of them and of no older one.
func TestLandlockAttributes(t *testing.T) {
	all := LandlockRules{Read: []string{"/"}, Scoped: true, NoSockets: true, NoPorts: true}
	for abi, want := range map[int][3]uint64{
		1: {0x1fff, 0, 0}, 2: {0x3fff, 0, 0}, 3: {0x7fff, 0, 0}, 4: {0x7fff, 3, 0}, 5: {0xffff, 3, 0},
		6: {0xffff, 3, 3}, 8: {0xffff, 3, 3}, 9: {0x1ffff, 3, 3}, 10: {0x1ffff, 15, 3}, 11: {0x1ffff, 15, 3},
	} {
		a := all.handled(abi)
		if got := [3]uint64{a.Handled_access_fs, a.Handled_access_net, a.Scoped}; got != want {
			t.Errorf("version %d: %#x, want %#x", abi, got, want)
		}
	}
}
