package jail

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/sys/unix"
)

// farEnd answers whatever comes out of a jail with the address that it was meant for.
func farEnd(l link.Link) (func(), error) {
	go func() {
		for {
			f, err := l.Accept()
			if err != nil {
				return
			}
			c, err := f.Accept()
			if err != nil {
				continue
			}
			fmt.Fprintln(c, f.Destination())
			c.Close()
		}
	}()
	go func() {
		buf := make([]byte, 1500)
		for {
			_, from, to, err := l.ReadDatagram(buf)
			if err != nil {
				return
			}
			_ = l.WriteDatagram([]byte(to.String()+"\n"), to, from)
		}
	}()
	return func() { l.Close() }, nil
}

// hostNet is the variable that names the host's network namespace to the program in the jail.
const hostNet = "COFFER_TEST_HOST_NET"

// far asks whoever answers in the name of an address who he is. It does so only where
// nothing can leave the machine: in another network namespace than the host's, with no
// interface but those that a jail's link makes.
func far(network, address string) error {
	here, err := os.Readlink("/proc/self/ns/net")
	if host := os.Getenv(hostNet); err != nil || host == "" || here == host {
		return fmt.Errorf("the network is the host's: %s, %v", here, err)
	}
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	switch got := strings.Join(names, " "); got {
	case "eth0 lo", "eth0 lo peer0", "coffer0 eth0 lo":
	default:
		return fmt.Errorf("there are other interfaces than a jail's: %s", got)
	}
	c, err := net.DialTimeout(network, address, time.Minute)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if network == "udp" {
		c.Write([]byte("x"))
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	if err != nil && err != io.EOF {
		return err
	}
	if got := strings.TrimSpace(string(buf[:n])); got != address {
		return fmt.Errorf("the far end says %q", got)
	}
	return nil
}

// fastOpen connects by sending.
func fastOpen(address string) error {
	host, port, _ := net.SplitHostPort(address)
	if host != "127.0.0.1" {
		return errors.New("only to loopback")
	}
	n, _ := strconv.Atoi(port)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}})
}

func init() {
	tries["far-tcp"] = func(a string) error { return far("tcp", a) }
	tries["far-udp"] = func(a string) error { return far("udp", a) }
	tries["fastopen"] = fastOpen
	tries["mptcp"] = func(string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
		if err == nil || err == unix.EPROTONOSUPPORT || err == unix.ENOPROTOOPT { // or the kernel has none
			unix.Close(fd)
			return nil
		}
		return err
	}
	tries["bind"] = func(a string) error {
		l, err := net.Listen("tcp", a)
		if err == nil {
			l.Close()
		}
		return err
	}
}

// served listens at a port of loopback, and returns its address.
func served(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// In a network namespace of its own all that a program sends comes out of the link, and
// this machine's loopback interface is not there.
func TestNetworkApart(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		if layer != Namespaces {
			return
		}
		here := served(t)
		host, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		v := newVictims(t, s)
		w := s.policy()
		w.Net = NetRules
		for _, kind := range []string{"", "private", "without packet rules"} {
			w.Env = append(s.Env(), hostNet+"="+host)
			w.Private, w.Ruleless, w.Read = kind == "private", kind == "without packet rules", []string{s.Binary}
			what := []string{"far-tcp:192.0.2.1:443", "far-udp:192.0.2.1:53", "far-tcp:[2001:db8::1]:443", "tcp:" + here, "bind:127.0.0.1:0"}
			got := v.try(t, &w, what)
			for i, want := range []string{"ok", "ok", "ok", "ECONNREFUSED", "ok"} {
				if got[i] != want {
					t.Errorf("%s: %s: %s, want %s", kind, what[i], got[i], want)
				}
			}
		}
		if got := v.try(t, nil, []string{"tcp:" + here}); got[0] != "ok" {
			t.Errorf("outside: %v, so it proves nothing", got)
		}
		// On the host itself the far end is never asked for.
		onHost := s.policy()
		onHost.Env = append(s.Env(), hostNet+"="+host)
		if got := v.try(t, &onHost, []string{"far-tcp:192.0.2.1:443"}); !strings.Contains(got[0], "the network is the host's") {
			t.Errorf("with the host's network: %s", got[0])
		}
		w.Argv = []string{"cat", "/etc/resolv.conf"}
		if r := s.run(t, w); strings.TrimSpace(r.out) != "nameserver "+link.Resolver4.String() {
			t.Errorf("the resolver: %v", r)
		}
	})
}

// Without a network namespace programs are kept to the ports that the rules leave, and to
// TCP; on an old Landlock there is no network. Both are said, and a strict jail refuses.
func TestNetworkPorts(t *testing.T) {
	now := confine.LandlockABI()
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		allowed, other := served(t), served(t)
		v := newVictims(t, s)
		what := []string{"tcp:" + allowed, "tcp:" + other, "udp:" + allowed, "fastopen:" + other, "mptcp:", "bind:127.0.0.1:0"}
		if outside := v.try(t, nil, what); strings.Join(outside, " ") != "ok ok ok ok ok ok" {
			t.Errorf("outside: %v, so it proves nothing", outside)
		}
		_, port, _ := net.SplitHostPort(allowed)
		n, _ := strconv.Atoi(port)
		for abi := 1; abi <= now; abi++ {
			t.Run(fmt.Sprint("abi=", abi), func(t *testing.T) {
				w := s.policy().in(layer)
				w.Net, w.Bound, w.ABI, w.Open = NetRules, true, abi, []confine.PortRange{{First: uint16(n), Last: uint16(n)}}
				w.Argv = append([]string{v.Binary, "jail-try"}, what...)
				r := s.run(t, w)
				want, said := "ok EACCES EPERM EPERM EPERM EACCES", "only the ports are kept: any host can be reached by TCP at "+port
				if abi < 4 {
					want, said = "EPERM EPERM EPERM EPERM EPERM EPERM", "there is no network: rules for it take"
				}
				if got := strings.Join(strings.Fields(r.out), " "); got != want || !strings.Contains(r.err, said) {
					t.Errorf("%q, want %q, and %q is said: %v", got, want, said, r)
				}
				w.Argv, w.Strict = []string{"echo", "runs"}, true
				if r := s.run(t, w); abi >= 4 && (r.code == 0 || !strings.Contains(r.err, said)) {
					t.Errorf("a strict jail: %v", r)
				}
				w.Strict, w.Must = false, true
				if r := s.run(t, w); r.code == 0 || !strings.Contains(r.err, "rules for the network cannot be kept") {
					t.Errorf("rules that must be kept: %v", r)
				}
				w.Must, w.Every = false, true
				w.Argv = []string{v.Binary, "jail-try", "tcp:" + other}
				if r := s.run(t, w); strings.TrimSpace(r.out) != "ok" || !strings.Contains(r.err, "the rules for the network are not kept") {
					t.Errorf("rules for every port: %v", r)
				}
			})
		}
	})
}
