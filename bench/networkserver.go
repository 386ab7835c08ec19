package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// The world's one server, its name, and a name that no rule allows. The address
// is as good as any: in the world all of its network is on the loopback interface. It
// must only be none that a gateway would refuse to anybody.
const (
	serverAddr  = "20.0.0.1"
	serverPort  = "7000"
	serverName  = "server.example"
	refusedName = "refused.example"
)

// startServers serves in the world until the process ends.
func startServers() error {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // most servers have none
	l, err := config.Listen(context.Background(), "tcp4", "0.0.0.0:"+serverPort)
	if err != nil {
		return err
	}
	names, err := net.ListenPacket("udp4", "127.0.0.1:53")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveBytes(c)
		}
	}()
	go serveNames(names)
	return nil
}

func serveBytes(c net.Conn) {
	defer c.Close()
	// Small: thousands of connections are served at once.
	b := make([]byte, 9)
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return
	}
	switch b[0] {
	case wantEcho:
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
		}
	case wantUp:
		n, err := receiveBlocks(c)
		if err != nil {
			return
		}
		_, _ = c.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	case wantDown:
		if _, err := io.ReadFull(c, b[:8]); err != nil {
			return
		}
		if sendBlocks(c, time.Now().Add(time.Duration(binary.BigEndian.Uint64(b)))) != nil {
			return
		}
	}
	_, _ = c.Read(b) // the client closes first
}

// serveNames answers that every name is the server's.
func serveNames(c net.PacketConn) {
	b := make([]byte, 1232)
	address := netip.MustParseAddr(serverAddr).As4()
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		answer := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: m.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
			Questions: m.Questions,
		}
		if q.Type == dnsmessage.TypeA {
			answer.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: address},
			}}
		}
		if out, err := answer.Pack(); err == nil {
			_, _ = c.WriteTo(out, from)
		}
	}
}
