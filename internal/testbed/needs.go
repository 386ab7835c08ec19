package testbed

import (
	"errors"
	"net"
	"os/exec"
	"syscall"
	"testing"
)

// A test that cannot be made on a host is skipped with the reason. What says so must not be
// coffer: a skip that believes what it is to test hides that it is broken. What everybody has
// who works on coffer, Go and git, is not asked for.

// Needs skips a test on a host that lacks one of these programs.
func Needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("this host has no %s", p)
		}
	}
}

// Listen listens on loopback or at a path. A test is skipped on a host without IPv6 that is about
// that.
func Listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		if four, err := net.Listen("tcp4", "127.0.0.1:0"); err == nil {
			four.Close()
			t.Skipf("this host has no IPv6: %s", address)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
