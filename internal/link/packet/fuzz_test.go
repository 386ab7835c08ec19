package packet

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// synTo is a frame with the first segment of a connection.
func synTo(to netip.Addr, flags header.TCPFlags) []byte {
	h := make(header.TCP, header.TCPMinimumSize+4)
	h.Encode(&header.TCPFields{SrcPort: 1000, DstPort: 80, SeqNum: 7, DataOffset: uint8(len(h)), Flags: flags, WindowSize: 1000})
	copy(h[header.TCPMinimumSize:], []byte{2, 4, 5, 180}) // maximum segment size
	return packetTo(to, 6, h)
}

// FuzzFrame gives a link frames: whatever they are, it does not crash, and goes on
// answering others.
func FuzzFrame(f *testing.F) {
	udp := []byte{0, 1, 0, 53, 0, 12, 0, 0, 'a', 'b', 'c', 'd'}
	f.Add([]byte{}, 0)
	for _, to := range []netip.Addr{link.Host4, link.Host6, outside4, outside6} {
		f.Add(echoTo(to), 0)
		f.Add(synTo(to, header.TCPFlagSyn), 0)
		f.Add(synTo(to, header.TCPFlagRst), 0)
		f.Add(synTo(to, header.TCPFlagAck|header.TCPFlagFin), 0)
		f.Add(packetTo(to, 17, udp), 0)
		f.Add(packetTo(to, 17, udp), 3)
		f.Add(packetTo(to, 132, make([]byte, 30)), 0)
	}
	f.Add(question(link.Own4, outside4), 0)
	f.Add(question(link.Own6, outside6), 0)
	f.Add(edit(packetTo(outside4, 17, udp), 6, 0x20, 0), 0)
	f.Add(edit(packetTo(outside4, 6, udp), 6, 0, 1), 0)
	f.Add(packetTo(outside6, 44, append([]byte{17, 0, 0, 1, 0, 0, 0, 1}, udp...)), 0)
	f.Add(packetTo(outside6, 44, append([]byte{6, 0, 0, 8, 0, 0, 0, 1}, udp...)), 0)

	l, b := benchLink(f)
	go func() { // a gateway that takes every second connection
		for i := 0; ; i++ {
			flow, err := l.Accept()
			if err != nil {
				return
			}
			if i%2 == 0 {
				flow.Refuse()
				continue
			}
			go func() {
				if c, err := flow.Accept(); err == nil {
					c.Reset()
				}
			}()
		}
	}()
	go func() {
		for {
			if _, _, _, err := l.ReadDatagram(make([]byte, 100)); err != nil {
				return
			}
		}
	}()
	ping := echoTo(link.Host4)
	f.Fuzz(func(t *testing.T, frame []byte, segment int) {
		if len(frame) > maxFrame {
			return
		}
		l.sort(frame, segment)
		before := b.pongs.Load()
		l.sort(ping, 0)
		if b.pongs.Load() == before {
			t.Fatal("a ping is no longer answered")
		}
		for b.answer() != nil {
		}
	})
}

// FuzzSegments sends what it likes on a connection that exists: in each step flags, by
// how much sequence and acknowledgement are off, a window, an option, and a payload.
func FuzzSegments(f *testing.F) {
	fin, ack, rst, syn := byte(header.TCPFlagFin), byte(header.TCPFlagAck), byte(header.TCPFlagRst), byte(header.TCPFlagSyn)
	f.Add([]byte{ack, 0, 0, 9, 0, 100, fin | ack, 100, 0, 9, 0, 0})
	f.Add([]byte{ack, 50, 0, 9, 0, 100, ack, 0, 0, 9, 0, 50, rst, 150, 0, 9, 0, 0})
	f.Add([]byte{ack, 0, 4, 0, 5, 0, ack, 0, 4, 9, 5, 1})
	f.Add([]byte{syn, 0, 0, 9, 2, 0, syn | ack, 0, 0, 9, 3, 0, ack, 0, 0, 9, 8, 0})
	l, b := benchLink(f)
	port := uint16(0)
	f.Fuzz(func(t *testing.T, steps []byte) {
		port = port%60000 + 1
		c := connectBench(t, l, b, port)
		go c.conn.Write(make([]byte, 1000))
		for ; len(steps) >= 6; steps = steps[6:] {
			c.send(l, steps[0], steps[1], steps[2], uint16(steps[3])<<7, steps[4], int(steps[5]))
		}
		c.conn.SetReadDeadline(time.Now())
		c.conn.Read(make([]byte, 1000))
		c.conn.Reset()
		for b.answer() != nil {
		}
	})
}

// A peer is the machine's side of a connection, made by hand.
type peer struct {
	conn     link.Conn
	port     uint16
	seq, ack uint32
}

// connectBench makes a connection by its three segments.
func connectBench(t *testing.T, l *Link, b *bench, port uint16) *peer {
	t.Helper()
	p := &peer{port: port, seq: 1000}
	conns := make(chan link.Conn, 1)
	go func() {
		for {
			f, err := l.Accept()
			if err != nil {
				return
			}
			if f.Source().Port() != port { // a late one, of the test before
				f.Refuse()
				continue
			}
			c, _ := f.Accept()
			conns <- c
			return
		}
	}()
	p.send(l, byte(header.TCPFlagSyn), 0, 0, 65000, 2, 0)
	for {
		f := <-b.out
		if h := header.TCP(f[ethernetSize+header.IPv4MinimumSize:]); h.DestinationPort() == port && h.Flags()&header.TCPFlagSyn != 0 {
			p.ack = h.SequenceNumber() + 1
			break
		}
	}
	p.seq++
	p.send(l, byte(header.TCPFlagAck), 0, 0, 65000, 0, 0)
	if p.conn = <-conns; p.conn == nil {
		t.Fatal("no connection")
	}
	return p
}

// send sends a segment. An option is a kind, with a length and content that its bits
// choose.
func (p *peer) send(l *Link, flags, seq, ack byte, window uint16, option byte, size int) {
	h := make(header.TCP, header.TCPMinimumSize, 400)
	if option != 0 {
		o := []byte{option & 15, option >> 4, 5, 180, 3, 3, 14, 1, 0, 0, 0, 7}
		if o[1] == 0 {
			o[1] = []byte{0, 1, 4, 3, 2, 10, 0, 0, 10}[min(o[0], 8)]
		}
		h = append(h, o...)
	}
	h.Encode(&header.TCPFields{
		SrcPort: p.port, DstPort: 80, SeqNum: p.seq + uint32(int8(seq)), AckNum: p.ack + uint32(int8(ack)),
		DataOffset: uint8(len(h)), Flags: header.TCPFlags(flags), WindowSize: window,
	})
	l.sort(packetTo(outside4, 6, append(h, make([]byte, size)...)), 0)
}

// readConn is a connection that has these bytes to read.
type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

// FuzzStream gives a stream bytes: the frames that come out are those that are in it.
func FuzzStream(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2})
	f.Add([]byte{0, 1, 0, 14})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var joined []byte
		s := &stream{conn: readConn{Reader: bytes.NewReader(data)}}
		s.receive(func(frame []byte, segment int) {
			if len(frame) > maxFrame || segment != 0 {
				t.Fatalf("a frame of %d bytes", len(frame))
			}
			joined = binary.BigEndian.AppendUint32(joined, uint32(len(frame)))
			joined = append(joined, frame...)
		})
		if !bytes.HasPrefix(data, joined) {
			t.Fatalf("% x came out of % x", joined, data)
		}
	})
}
