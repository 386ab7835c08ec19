package fakenet

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// A socket that receives datagrams to any address answers in the name of that address:
// at is where it came to, and where an answer comes from.
type packets interface {
	read(b []byte) (n int, at net.IP, from net.Addr, err error)
	write(b []byte, at net.IP, to net.Addr) error
}

// receive answers datagrams to any address, in its name.
func (w *World) receive(s service, port int) error {
	for _, open := range []func(int) (packets, error){open4, open6} {
		p, err := open(port)
		if err != nil {
			return err
		}
		go w.answerAll(s, port, p)
	}
	return nil
}

func (w *World) answerAll(s service, port int, p packets) {
	b := make([]byte, 1<<16)
	for {
		n, at, from, err := p.read(b)
		if err != nil {
			return
		}
		e := w.Log.add(s.kind, &net.UDPAddr{Port: port, IP: at})
		e.say(b[:n])
		if answer := s.answer(w, b[:n], e); answer != nil {
			p.write(answer, at, from)
		}
		e.end()
	}
}

type packets4 struct{ *ipv4.PacketConn }

func open4(port int) (packets, error) {
	l, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	p := ipv4.NewPacketConn(l)
	return packets4{p}, p.SetControlMessage(ipv4.FlagDst, true)
}

func (p packets4) read(b []byte) (int, net.IP, net.Addr, error) {
	n, cm, from, err := p.ReadFrom(b)
	if err != nil {
		return 0, nil, nil, err
	}
	return n, cm.Dst, from, nil
}

func (p packets4) write(b []byte, at net.IP, to net.Addr) error {
	_, err := p.WriteTo(b, &ipv4.ControlMessage{Src: at}, to)
	return err
}

type packets6 struct{ *ipv6.PacketConn }

func open6(port int) (packets, error) {
	config := net.ListenConfig{Control: anyAddress}
	l, err := config.ListenPacket(context.Background(), "udp6", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	p := ipv6.NewPacketConn(l)
	return packets6{p}, p.SetControlMessage(ipv6.FlagDst, true)
}

func (p packets6) read(b []byte) (int, net.IP, net.Addr, error) {
	n, cm, from, err := p.ReadFrom(b)
	if err != nil {
		return 0, nil, nil, err
	}
	return n, cm.Dst, from, nil
}

func (p packets6) write(b []byte, at net.IP, to net.Addr) error {
	_, err := p.WriteTo(b, &ipv6.ControlMessage{Src: at}, to)
	return err
}

// anyAddress lets a socket answer in the name of an address that no interface has. (With
// IPv4 a route is enough.)
func anyAddress(_, _ string, c syscall.RawConn) (err error) {
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
	}); e != nil {
		return e
	}
	return err
}
