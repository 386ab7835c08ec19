package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// network are attempts to say a word to somebody beyond loopback. They get through when
// they were answered: a connection alone proves nothing, for the kernel inside makes it
// before anybody was asked.
var network = map[string]func([]string) error{
	"talk":      talk,
	"silent":    silent,
	"hold":      hold,
	"udp":       func(a []string) error { return datagram("udp", a) },
	"bound":     bound,
	"relayed":   relayed,
	"listeners": listeners,
	"ping":      ping,
	"answered":  answered,
	"database":  database,
}

// wait is for a single answer, which may be a user's. Nothing has to be waited for so long: it
// is for machines on which everything takes long.
const wait = time.Minute

// lost is when a datagram, or the answer to it, counts as lost.
const lost = 5 * time.Second

// numeric reads an IPv4 address as C libraries do: in one to four parts, each decimal,
// octal or hexadecimal.
func numeric(host string) (string, bool) {
	parts := strings.Split(host, ".")
	var ip uint32
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 0, 32)
		last := i == len(parts)-1
		switch {
		case err != nil || len(parts) > 4 || !last && n > 255 || last && n >= 1<<(8*(5-len(parts))):
			return "", false
		case last:
			ip |= uint32(n)
		default:
			ip |= uint32(n) << (24 - 8*i)
		}
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}).String(), true
}

// reach connects to host:port.
func reach(network, to string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return nil, err
	}
	if ip, ok := numeric(host); ok {
		host = ip
	}
	d := net.Dialer{Timeout: wait}
	d.SetMultipathTCP(false)
	c, err := d.Dial(network, net.JoinHostPort(host, port))
	if err != nil {
		return nil, plainly(err)
	}
	c.SetDeadline(time.Now().Add(wait))
	return c, nil
}

// plainly gives the errors that are no errno a name.
func plainly(err error) error {
	var d *net.DNSError
	var no unix.Errno
	switch {
	case err == nil, errors.As(err, &no):
		return err
	case errors.As(err, &d) && d.IsNotFound:
		return fact("NXDOMAIN")
	case errors.As(err, &d) && d.IsTimeout:
		return fact("DNS-TIMEOUT")
	case errors.As(err, &d):
		note = d.Error()
		return fact("DNS-ERROR")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fact("EOF")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fact("TIMEOUT")
	}
	return err
}

// exchange says a line and wants the same back, after a greeting if there is one.
func exchange(c io.ReadWriter, word string) error {
	if _, err := fmt.Fprintln(c, word); err != nil {
		return plainly(err)
	}
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if strings.TrimSpace(line) == word {
			return nil
		}
		if err != nil {
			return plainly(err)
		}
	}
}

// talk says a word to an echo by TCP: host:port, word.
func talk(a []string) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	return exchange(c, a[1])
}

// silent waits for the server to speak first, and then says a word.
func silent(a []string) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 64)); err != nil {
		return plainly(err)
	}
	return exchange(c, a[1])
}

// database begins as a client of PostgreSQL does: with a few bytes to which the server
// has a short answer.
func database(a []string) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	answer := make([]byte, 1)
	for _, step := range []struct{ say, want string }{
		{"\x00\x00\x00\x08\x04\xd2\x16\x2f", "N"}, // may we speak TLS? no
		{"\x00\x00\x00\x40\x00\x03\x00\x00user\x00" + a[1] + "\x00\x00", "R"},
	} {
		if _, err := io.WriteString(c, step.say); err != nil {
			return plainly(err)
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			return plainly(err)
		}
		if string(answer) != step.want {
			return fact("WRONG-ANSWER")
		}
	}
	return nil
}

// hold talks, prints a line, and meets whatever ends the connection. It gets through if
// nothing has until its input ends.
func hold(a []string) error {
	c, err := reach("tcp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	if err := exchange(c, a[1]); err != nil {
		return err
	}
	fmt.Println("holding")
	c.SetDeadline(time.Time{})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- plainly(err)
	}()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		ended <- exchange(c, a[1])
	}()
	return <-ended
}

// datagram sends a word by UDP and wants it back.
func datagram(network string, a []string) error {
	c, err := reach(network, a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(lost))
	return exchange(c, a[1])
}

// bound talks from a source address that it has no right to: network, from, to, word.
func bound(a []string) error {
	from, err := netip.ParseAddrPort(a[1])
	if err != nil {
		return err
	}
	d := net.Dialer{Timeout: lost, LocalAddr: net.TCPAddrFromAddrPort(from)}
	if a[0] == "udp" {
		d.LocalAddr = net.UDPAddrFromAddrPort(from)
	}
	d.SetMultipathTCP(false)
	c, err := d.Dial(a[0], a[2])
	if err != nil {
		return plainly(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(lost))
	return exchange(c, a[3])
}

// relayed asks for a URL by way of a forwarder on loopback, as agents run them.
func relayed(a []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	u, err := parse(a[0])
	if err != nil {
		return err
	}
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := reach("tcp", u.Host)
		if err != nil {
			return
		}
		defer out.Close()
		go io.Copy(out, in)
		io.Copy(in, out)
	}()
	c, err := reach("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	return retrieve(c, u, u.Host)
}

// listeners looks for whoever listens in this network namespace, and says a word to each
// of them. It gets through if any answers, and otherwise meets what the first one did.
func listeners(a []string) error {
	var met error = fact("NOBODY-LISTENS")
	var all []string
	for _, network := range []string{"tcp4", "tcp6", "udp4", "udp6"} {
		for _, port := range listening(strings.TrimSuffix(network, "4")) {
			err := knockAt(network, port, a[0])
			if err == nil {
				note = network + " port " + port + " answers"
				return nil
			}
			if all = append(all, network+" "+wall(err)); len(all) == 1 {
				met = err
			}
		}
	}
	note = strings.Join(all, ", ")
	return met
}

func knockAt(network, port, word string) error {
	host := "127.0.0.1"
	if strings.HasSuffix(network, "6") {
		host = "::1"
	}
	c, err := reach(network, net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer c.Close()
	if strings.HasPrefix(network, "udp") {
		c.SetDeadline(time.Now().Add(300 * time.Millisecond)) // silence is an answer, too
	}
	fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: good.example\r\n\r\n", word)
	_, err = c.Read(make([]byte, 16))
	return plainly(err)
}

// listening returns the ports of the sockets in a table of /proc/net that wait for
// whoever comes.
func listening(table string) (ports []string) {
	b, _ := os.ReadFile("/proc/net/" + table)
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" && f[3] != "07" { // listening; for UDP, not connected
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil {
			ports = append(ports, strconv.FormatUint(n, 10))
		}
	}
	return ports
}

// ping sends an echo request by the kind of socket that needs no rights.
func ping(a []string) error {
	ip := netip.MustParseAddr(a[0])
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(lost / time.Second)})
	if err := unix.Connect(s, &unix.SockaddrInet4{Addr: ip.As4()}); err != nil {
		return err
	}
	if _, err := unix.Write(s, append([]byte{8, 0, 0, 0, 0, 0, 0, 1}, a[1]...)); err != nil {
		return err
	}
	_, err = unix.Read(s, make([]byte, 256))
	return err
}

// answered opens a connection in one of the ways that are not plain TCP, and wants an
// answer: way, address, word.
func answered(a []string) error {
	to, family, err := address(a[1])
	if err != nil {
		return err
	}
	protocol := map[string]int{"mptcp": unix.IPPROTO_MPTCP, "sctp": unix.IPPROTO_SCTP}[a[0]]
	s, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(lost / time.Second)})
	word := []byte(a[2] + "\n")
	if a[0] == "fastopen" {
		err = unix.Sendto(s, word, unix.MSG_FASTOPEN, to)
	} else if err = unix.Connect(s, to); err == nil {
		_, err = unix.Write(s, word)
	}
	if err != nil {
		return err
	}
	n, err := unix.Read(s, make([]byte, 256))
	if err == nil && n == 0 {
		return fact("EOF")
	}
	return err
}
