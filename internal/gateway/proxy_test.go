package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

const password = "s3cret"

// connectProxy is an HTTP proxy that says something by itself as soon as it is connected.
func connectProxy(t *testing.T, seen chan<- *http.Request, early string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		seen <- q
		switch {
		case q.Host == "refused.com:80":
			io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		case q.Host == "rude.com:80":
			io.WriteString(c, "what?\r\n\r\n")
		case q.Method != "CONNECT":
			t.Errorf("%+v", q)
		default:
			io.WriteString(c, "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n"+early)
			io.Copy(c, c)
		}
	}
}

func TestConnectProxy(t *testing.T) {
	for _, early := range []string{"", "early "} {
		seen := make(chan *http.Request, 10)
		r := newRig(t, rules(t, "allow example.com", "allow unknown.com", "allow private.com", "allow mixed.com", "allow refused.com", "allow rude.com", "allow 93.184.215.14", "allow direct.com", "allow *.wild.com"),
			func(c *Config, _ *limits) {
				c.Proxy = func(host string, port uint16) *url.URL {
					if host == "direct.com" {
						return nil
					}
					return &url.URL{Scheme: "http", Host: "proxy.corp:3128", User: url.UserPassword("joe", password)}
				}
			})
		r.world.name("proxy.corp", addrs("10.9.9.9")) // its address is the user's choice
		r.serveAt(mustPort("10.9.9.9:3128"), connectProxy(t, seen, early))
		r.world.name("example.com", []netip.Addr{public})
		r.world.name("private.com", addrs("10.0.0.1"))
		r.world.name("mixed.com", addrs("93.184.215.14", "10.0.0.1"))
		r.serve("direct.com", 80, echo)
		try := func(c *net.TCPConn) string {
			io.WriteString(c, "\x00hello")
			c.CloseWrite()
			said, _ := outcome(c)
			return said
		}
		for _, host := range []string{"example.com", "unknown.com"} { // the proxy resolves what we cannot
			if said := try(r.connect(host, 80)); said != early+"\x00hello" {
				t.Errorf("%s: %q", host, said)
			}
			q := <-seen
			if q.Host != host+":80" || q.Header.Get("Proxy-Authorization") != "Basic am9lOnMzY3JldA==" {
				t.Errorf("%s: %+v", host, q)
			}
		}
		if said := try(r.connectTo(netip.AddrPortFrom(public, 80))); said != early+"\x00hello" || (<-seen).Host != "93.184.215.14:80" {
			t.Errorf("bare: %q", said)
		}
		if said := try(r.connect("direct.com", 80)); said != "\x00hello" || len(seen) != 0 {
			t.Errorf("direct: %q", said)
		}
		// Where a pattern allows it, what cannot be resolved cannot be vetted.
		for _, host := range []string{"private.com", "mixed.com", "unknown.wild.com"} {
			c := r.connect(host, 80)
			io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", host))
			if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || len(seen) != 0 {
				t.Errorf("%s: %q", host, said)
			}
		}
		for _, host := range []string{"refused.com", "rude.com"} {
			c := r.connect(host, 80)
			io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", host))
			said, _ := outcome(c)
			if !strings.HasPrefix(said, "HTTP/1.1 502 ") || strings.Contains(said, "proxy.corp") || strings.Contains(said, password) {
				t.Errorf("%s: %q", host, said)
			}
			<-seen
		}
		for _, e := range r.waitEvents("flow", 9) {
			if strings.Contains(e.Close+e.Reason+e.Detail, password) {
				t.Errorf("%+v", e)
			}
		}
	}
}

// TestTLSProxy: much data by a proxy that speaks TLS, none of it past that TLS.
func TestTLSProxy(t *testing.T) {
	r := newRig(t, rules(t, "allow dest.com"), func(c *Config, _ *limits) {
		c.Proxy = func(string, uint16) *url.URL { return &url.URL{Scheme: "https", Host: "example.com"} }
	})
	server := httptest.NewTLSServer(nil) // for its certificate, which is for example.com
	defer server.Close()
	r.g.roots = x509.NewCertPool()
	r.g.roots.AddCert(server.Certificate())
	r.serve("example.com", 443, func(c *net.TCPConn) {
		s := tls.Server(c, &tls.Config{Certificates: server.TLS.Certificates})
		br := bufio.NewReader(s)
		if q, err := http.ReadRequest(br); err != nil || q.Host != "dest.com:1000" {
			t.Errorf("%+v, %v", q, err)
		}
		io.WriteString(s, "HTTP/1.1 200 OK\r\n\r\n")
		io.Copy(s, br)
		s.CloseWrite()
	})
	data := bytes.Repeat([]byte("\x00data"), 1<<20)
	c := r.connect("dest.com", 1000)
	go func() {
		c.Write(data)
		c.CloseWrite()
	}()
	if said, end := outcome(c); said != string(data) || end != "eof" {
		t.Errorf("%s after %d bytes of %d", end, len(said), len(data))
	}
}

func TestSocksProxy(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"), func(c *Config, _ *limits) {
		c.Proxy = func(string, uint16) *url.URL {
			return &url.URL{Scheme: "socks5", Host: "10.9.9.9:1080", User: url.UserPassword("joe", password)}
		}
	})
	asked := make(chan string, 1)
	r.serveAt(mustPort("10.9.9.9:1080"), func(c *net.TCPConn) {
		b := make([]byte, 300)
		io.ReadFull(c, b[:2])
		io.ReadFull(c, b[:b[1]])
		c.Write([]byte{5, 2}) // user and password
		io.ReadFull(c, b[:2])
		n := b[1]
		io.ReadFull(c, b[:n+1])
		io.ReadFull(c, b[:b[n]])
		word := string(b[:len(password)])
		c.Write([]byte{1, 0})
		io.ReadFull(c, b[:5])
		n = b[4]
		io.ReadFull(c, b[:n+2])
		asked <- word + " " + string(b[:n]) + " " + string(rune(binary.BigEndian.Uint16(b[n:])))
		c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		io.Copy(c, c)
	})
	c := r.connect("example.com", 80)
	io.WriteString(c, "\x00hello")
	c.CloseWrite()
	if said, end := outcome(c); said != "\x00hello" {
		t.Errorf("%s after %q", end, said)
	}
	if s := <-asked; s != password+" example.com "+string(rune(80)) {
		t.Errorf("%q", s)
	}
}

func TestEnvironmentProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, "")
	}
	show := func(u *url.URL) string {
		if u == nil {
			return "direct"
		}
		return u.String()
	}
	check := func(host string, port uint16, want string) {
		t.Helper()
		var by *url.URL
		if proxy := environmentProxy(); proxy != nil {
			by = proxy(host, port)
		}
		if got := show(by); got != want {
			t.Errorf("%s:%d goes by %s, want %s", host, port, got, want)
		}
	}
	check("example.com", 443, "direct")
	t.Setenv("HTTP_PROXY", "http://web:1")
	t.Setenv("https_proxy", "tls:2")
	t.Setenv("NO_PROXY", "corp.com,10.0.0.0/8")
	check("example.com", 80, "http://web:1")
	check("example.com", 443, "http://tls:2")
	check("example.com", 22, "direct")
	check("a.corp.com", 443, "direct")
	check("10.1.1.1", 80, "direct")
	t.Setenv("ALL_PROXY", "socks5://all:3")
	check("example.com", 22, "socks5://all:3")
	check("example.com", 80, "http://web:1")
	check("a.corp.com", 22, "direct")
	t.Setenv("HTTP_PROXY", "")
	check("example.com", 80, "socks5://all:3")
	t.Setenv("ALL_PROXY", "socks5h://all:3")
	check("example.com", 22, "socks5h://all:3")
}
