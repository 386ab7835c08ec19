package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are attempts to speak with somebody outside. What they say is the word by
// which the listener knows the attempt.
var sockets = map[string]func([]string) error{
	"dial":       dial,
	"tcp":        func(a []string) error { return stream(a, 0) },
	"mptcp":      func(a []string) error { return stream(a, unix.IPPROTO_MPTCP) },
	"sctp":       func(a []string) error { return stream(a, unix.IPPROTO_SCTP) },
	"fastopen":   fastOpen,
	"sendto":     sendTo,
	"socketpair": retarget,
}

// dial connects: network, address, word.
func dial(a []string) error {
	c, err := net.DialTimeout(a[0], a[1], wait)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = fmt.Fprintln(c, a[2]); err != nil {
		return err
	}
	if a[0] != "udp" && a[0] != "udp6" && a[0] != "udp4" {
		return nil
	}
	// A refusal comes with the next call.
	c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
		return err
	}
	return nil
}

// address is an IP address and port for the kernel.
func address(s string) (unix.Sockaddr, int, error) {
	t, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		return nil, 0, err
	}
	if ip := t.IP.To4(); ip != nil {
		return &unix.SockaddrInet4{Port: t.Port, Addr: [4]byte(ip)}, unix.AF_INET, nil
	}
	return &unix.SockaddrInet6{Port: t.Port, Addr: [16]byte(t.IP.To16())}, unix.AF_INET6, nil
}

func stream(a []string, protocol int) error {
	to, family, err := address(a[0])
	if err != nil {
		return err
	}
	s, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, to); err != nil {
		return err
	}
	_, err = unix.Write(s, []byte(a[1]+"\n"))
	return err
}

// fastOpen sends data with the first packet, without connect.
func fastOpen(a []string) error {
	to, family, err := address(a[0])
	if err != nil {
		return err
	}
	s, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Sendto(s, []byte(a[1]+"\n"), unix.MSG_FASTOPEN, to)
}

// sendTo sends a datagram to a Unix socket without connecting.
func sendTo(a []string) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Sendto(s, []byte(a[1]+"\n"), 0, &unix.SockaddrUnix{Name: a[0]})
}

// retarget does the same with one end of a socket pair.
func retarget(a []string) error {
	s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s[0])
	defer unix.Close(s[1])
	to := &unix.SockaddrUnix{Name: a[0]}
	if err := unix.Connect(s[0], to); err != nil {
		return err
	}
	_, err = unix.Write(s[0], []byte(a[1]+"\n"))
	return err
}
