package fakenet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
)

func echo(_ *World, c net.Conn, e *entry) { io.Copy(c, tapped{c, e}) }

// greet speaks first, and then answers every line with the same.
func greet(words string) func(*World, net.Conn, *entry) {
	return func(_ *World, c net.Conn, e *entry) {
		if _, err := io.WriteString(c, words); err != nil {
			return
		}
		io.Copy(c, tapped{c, e})
	}
}

// postgres refuses encryption, and lets everybody in.
func postgres(_ *World, c net.Conn, e *entry) {
	in := tapped{c, e}
	if _, err := io.ReadFull(in, make([]byte, 8)); err != nil {
		return
	}
	if _, err := io.WriteString(c, "N"); err != nil {
		return
	}
	if _, err := in.Read(make([]byte, 4096)); err != nil {
		return
	}
	io.WriteString(c, "R\x00\x00\x00\x08\x00\x00\x00\x00")
	io.Copy(io.Discard, in)
}

// serveProxy connects whoever asks with whatever he asks for.
func serveProxy(_ *World, c net.Conn, e *entry) {
	in := bufio.NewReader(tapped{c, e})
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	words := strings.Fields(line)
	for line != "\r\n" {
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
	}
	if len(words) != 3 || words[0] != "CONNECT" {
		io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
		return
	}
	to, err := net.Dial("tcp", words[1])
	if err != nil {
		fmt.Fprintf(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer to.Close()
	io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
	go func() {
		io.Copy(to, in)
		to.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(c, to)
}
