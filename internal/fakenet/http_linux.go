package fakenet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// serveHTTP is a server as attackers like them: it takes any line end, any number of
// hosts, and believes Content-Length before anything else.
//
//	/redirect?to=URL   sends on to it
//	/big?N             answers with N bytes
//	anything else      answers with JSON: server, host, path
func serveHTTP(_ *World, c net.Conn, e *entry) { speakHTTP(tapped{c, e}) }

func speakHTTP(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		r, ok := readRequest(in)
		if !ok {
			return
		}
		if !r.answer(c) || r.last {
			return
		}
	}
}

type request struct {
	path string
	host string
	last bool
}

func readRequest(in *bufio.Reader) (r request, ok bool) {
	line := "\n"
	var err error
	for strings.TrimSpace(line) == "" {
		if line, err = in.ReadString('\n'); err != nil {
			return r, false
		}
	}
	words := strings.Fields(line)
	if len(words) < 2 {
		return r, false
	}
	r.path = words[1]
	length, chunked := -1, false
	for {
		if line, err = in.ReadString('\n'); err != nil {
			return r, false
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "host":
			r.host = value
		case "content-length":
			length, _ = strconv.Atoi(value)
		case "transfer-encoding":
			chunked = strings.Contains(value, "chunked")
		case "connection":
			r.last = strings.Contains(value, "close")
		}
	}
	switch {
	case length > 0:
		_, err = io.CopyN(io.Discard, in, int64(length))
	case length < 0 && chunked:
		err = skipChunks(in)
	}
	return r, err == nil
}

func skipChunks(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, n+2); err != nil || n == 0 {
			return err
		}
	}
}

func (r request) answer(c net.Conn) bool {
	path, query, _ := strings.Cut(r.path, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok { // the absolute form
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	var err error
	switch path {
	case "/redirect":
		v, _ := url.ParseQuery(query)
		_, err = fmt.Fprintf(c, "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", v.Get("to"))
	case "/big":
		n, _ := strconv.ParseInt(query, 10, 64)
		if _, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n); err == nil {
			_, err = io.CopyN(c, zeros{}, n)
		}
	default:
		body, _ := json.Marshal(map[string]string{"server": plain(c.LocalAddr()), "host": r.host, "path": r.path})
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	return err == nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
