package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The addresses of the network that inNetwork makes. They are reserved for
// documentation and exist in that namespace only.
const (
	nearby  = "192.0.2.7"
	nearby6 = "2001:db8::7"
)

// inNetwork gives a network namespace addresses other than loopback ones, listens on
// them, runs a command, and prints the words that it heard.
func inNetwork(a []string) error {
	if err := addresses(); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	heard := make(chan string, 64)
	for _, ip := range []string{nearby, "[" + nearby6 + "]"} {
		l, err := net.Listen("tcp", ip+":7777")
		for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); l, err = net.Listen("tcp", ip+":7777") {
			time.Sleep(5 * time.Millisecond) // an IPv6 address is tentative at first
		}
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				line, _ := bufio.NewReader(c).ReadString('\n')
				c.Close()
				heard <- line
			}
		}()
		u, err := net.ListenPacket("udp", ip+":7777")
		if err != nil {
			return err
		}
		go func() {
			buf := make([]byte, 256)
			for {
				n, _, err := u.ReadFrom(buf)
				if err != nil {
					return
				}
				heard <- string(buf[:n])
			}
		}()
	}
	c := exec.Command("/proc/self/exe", append([]string{"become"}, a...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	// Our own word last: what came before it has been heard.
	for _, network := range []string{"tcp", "udp"} {
		for _, ip := range []string{nearby, "[" + nearby6 + "]"} {
			if c, err := net.Dial(network, ip+":7777"); err == nil {
				fmt.Fprintln(c, "end")
				c.Close()
			}
		}
	}
	for ends := 0; ends < 4; {
		if word := <-heard; word == "end\n" {
			ends++
		} else {
			fmt.Print("heard ", word)
		}
	}
	return err
}

// addresses brings loopback up and gives it two addresses more.
func addresses() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	up, _ := unix.NewIfreq("lo")
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, up); err != nil {
		return err
	}
	four, _ := unix.NewIfreq("lo:1")
	if err := four.SetInet4Addr(net.ParseIP(nearby).To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCSIFADDR, four); err != nil {
		return err
	}
	six, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(six)
	// struct in6_ifreq: address, prefix length, interface. Loopback is number 1.
	req := struct {
		addr   [16]byte
		prefix uint32
		index  int32
	}{addr: [16]byte(net.ParseIP(nearby6).To16()), prefix: 128, index: 1}
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(six), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&req)))
	if err := failure(no); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
