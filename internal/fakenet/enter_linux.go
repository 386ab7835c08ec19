package fakenet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// variable tells a process that it is in namespaces of its own: new ones, or such that
// are furnished already.
const (
	variable  = "COFFER_FAKENET"
	isNew     = "new"
	furnished = "furnished"
)

// The addresses of the host itself.
const (
	Own4   = "20.0.9.9" // a public one
	Own6   = "2a0f:c0ff:9::9"
	OwnLAN = "192.168.20.2"
	Routed = "20.0.77.7" // by a route, and on no interface
)

// here is the world of this process.
var here *World

// Main is for TestMain: it runs the tests, in a child of Enter after it has made the
// world that they run in.
func Main(run func()) {
	var err error
	switch os.Getenv(variable) {
	case isNew:
		err = furnish()
	case furnished:
		os.Unsetenv(variable) // our children are not to do it again
		here, err = newWorld()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a fake internet:", err)
		os.Exit(1)
	}
	run()
}

// Enter runs the calling test again in a world of its own, and returns nil when that is
// over. In there it returns the world. TestMain must have called Main.
func Enter(t *testing.T, env ...string) *World {
	t.Helper()
	if here != nil {
		return here
	}
	var parts []string
	for name := range strings.SplitSeq(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(name)+"$")
	}
	c := exec.Command("/proc/self/exe", "-test.run="+strings.Join(parts, "/"), "-test.count=1", "-test.v="+fmt.Sprint(testing.Verbose()))
	c.Args[0] = os.Args[0]
	if end, ok := t.Deadline(); ok {
		c.Args = append(c.Args, "-test.timeout="+(time.Until(end)*9/10).String()) // it tells more than we could
	}
	c.Env = append(append(os.Environ(), variable+"="+isNew), env...)
	c.SysProcAttr = namespaces()
	runtime.LockOSThread() // the child would get its signal when the thread ends
	defer runtime.UnlockOSThread()
	out, err := c.CombinedOutput()
	t.Logf("in a fake internet:\n%s", out)
	if err != nil {
		t.Errorf("in a fake internet: %v", err)
	}
	return nil
}

// namespaces are those of a world. Who is not root needs a user namespace to make them.
func namespaces() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		for n := range uintptr(unix.CAP_LAST_CAP + 1) {
			a.AmbientCaps = append(a.AmbientCaps, n)
		}
	}
	return a
}

// furnish makes the network and starts us again, without the rights that it took.
func furnish() error {
	runtime.LockOSThread() // rights are a thread's
	if err := alone(); err != nil {
		return err
	}
	if err := route(); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	for name, value := range map[string]string{
		"ip_unprivileged_port_start": "0",
		"ping_group_range":           fmt.Sprintf("%d %d", os.Getgid(), max(os.Getgid(), mostGroup())),
	} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up rights: %w", err)
	}
	os.Setenv(variable, furnished)
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// alone makes sure that this is a new network namespace. Everything that tests send to
// any address at all depends on it.
func alone() error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].Flags&net.FlagLoopback == 0 || all[0].Flags&net.FlagUp != 0 {
		return errors.New("this is not a new network namespace")
	}
	return nil
}

// route brings loopback up and makes every address a local one.
func route() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, own := range []string{Own4 + "/32", OwnLAN + "/24", Own6 + "/128"} {
		a, err := netlink.ParseAddr(own)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(lo, a); err != nil {
			return fmt.Errorf("add %s: %w", own, err)
		}
	}
	// In halves: a route to everything would be a default route, which the library
	// wants a gateway for.
	for _, part := range []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1", Routed + "/24"} {
		_, to, err := net.ParseCIDR(part)
		if err != nil {
			return err
		}
		r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: to, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("route %s: %w", part, err)
		}
	}
	return nil
}

// mostGroup is the highest group that may ping: where there are no others, our own.
func mostGroup() int {
	if os.Getuid() == 0 {
		return 1 << 20
	}
	return os.Getgid()
}
