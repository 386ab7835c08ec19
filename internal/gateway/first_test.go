package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
)

// clientHello returns the first bytes of a TLS client for a server name.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		_ = tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		a.Close()
	}()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// withECH adds an extension of an encrypted ClientHello.
func withECH(hello []byte) []byte {
	out := bytes.Clone(hello)
	ext := []byte{0xfe, 0x0d, 0, 4, 0, 1, 2, 3}
	out = append(out, ext...)
	grow := func(at, size int) {
		n := 0
		for i := range size {
			n = n<<8 | int(out[at+i])
		}
		n += len(ext)
		for i := size - 1; i >= 0; i-- {
			out[at+i] = byte(n)
			n >>= 8
		}
	}
	grow(3, 2) // record
	grow(6, 3) // handshake message
	at := 5 + 4 + 2 + 32
	at += 1 + int(out[at])
	at += 2 + int(out[at])<<8 + int(out[at+1])
	at += 1 + int(out[at])
	grow(at, 2) // extensions
	return out
}

// TestFirstBytes says what becomes of a connection by how it begins. "through" means
// that the server got exactly what the program sent.
func TestFirstBytes(t *testing.T) {
	const name = "example.com"
	hello := clientHello(t, name)
	get := "GET / HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
	tests := []struct {
		what string
		rule string
		send string
		want string // "through", an HTTP status, "alert", or "reset"
	}{
		{"TLS with the name", "allow example.com", string(hello), "through"},
		{"TLS with the name in another case", "allow example.com", string(clientHello(t, "EXAMPLE.com")), "through"},
		{"TLS with the name, tls rule", "allow example.com tls", string(hello), "through"},
		{"TLS with the name, tcp rule", "allow example.com tcp", string(hello), "through"},
		{"TLS with the name, http rule", "allow example.com http", string(hello), "alert"},
		{"TLS with the name, rule for a method", "allow example.com http methods=GET", string(hello), "alert"},
		{"TLS with another name", "allow example.com", string(clientHello(t, "evil.example.com")), "alert"},
		{"TLS with another allowed name", "allow *.example.com", string(clientHello(t, "a.example.com")), "alert"},
		{"TLS without a name", "allow example.com", string(clientHello(t, "")), "alert"},
		{"TLS with ECH", "allow example.com", string(withECH(hello)), "alert"},
		{"TLS that is no ClientHello", "allow example.com", "\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", "alert"},
		{"TLS denied", "deny example.com", string(hello), "alert"},

		{"HTTP with the host", "allow example.com", get, "through"},
		{"HTTP with the host, http rule", "allow example.com http", get, "through"},
		{"HTTP with the host, tls rule", "allow example.com tls", get, "403"},
		{"HTTP method allowed", "allow example.com http methods=GET", get, "through"},
		{"HTTP method not allowed", "allow example.com http methods=POST", get, "403"},
		{"HTTP path not allowed", "allow example.com http paths=/a/*", get, "403"},
		{"HTTP denied", "deny example.com", get, "403"},
		{"HTTP with another host", "allow example.com", "GET / HTTP/1.1\r\nHost: evil.example.com:443\r\n\r\n", "421"},
		{"HTTP with another port", "allow example.com", "GET / HTTP/1.1\r\nHost: example.com:80\r\n\r\n", "421"},
		{"HTTP without a host", "allow example.com", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"HTTP with two hosts", "allow example.com", "GET / HTTP/1.1\r\nHost: example.com:443\r\nHost: example.com:443\r\n\r\n", "400"},
		{"HTTP absolute form", "allow example.com", "GET http://example.com:443/ HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "through"},
		{"HTTP absolute form, other host", "allow example.com", "GET http://evil.com:443/ HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "400"},
		{"HTTP absolute form, both other", "allow example.com", "GET http://evil.com:443/ HTTP/1.1\r\nHost: evil.com:443\r\n\r\n", "421"},
		{"HTTP with length and chunks", "allow example.com", "POST / HTTP/1.1\r\nHost: example.com:443\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"HTTP with a space before the colon", "allow example.com", "GET / HTTP/1.1\r\nHost : example.com:443\r\n\r\n", "400"},
		{"HTTP with bare LF", "allow example.com", "GET / HTTP/1.1\nHost: example.com:443\n\n", "400"},
		{"HTTP after an empty line", "allow example.com", "\r\n" + get, "400"},
		{"HTTP CONNECT", "allow example.com", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "403"},
		{"HTTP with a long head", "allow example.com", "GET / HTTP/1.1\r\nHost: example.com:443\r\nX: " + strings.Repeat("x", sniff.MaxHTTP) + "\r\n\r\n", "431"},
		{"HTTP 2", "allow example.com", "GET / HTTP/2.0\r\nHost: example.com:443\r\n\r\n", "505"},

		{"HTTP/2 preface", "allow example.com", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "reset"},
		{"HTTP/2 preface, tcp rule", "allow example.com tcp", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "through"},
		{"HTTP/2 preface, http rule", "allow example.com http", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "reset"},

		{"raw", "allow example.com", "\x00\x01\x02 anything", "through"},
		{"raw, tls rule", "allow example.com tls", "\x00\x01\x02 anything", "reset"},
		{"raw, http rule", "allow example.com http", "\x00\x01\x02 anything", "reset"},
		{"raw denied", "deny example.com", "\x00\x01\x02 anything", "reset"},
		{"raw, half a line", "allow example.com", "ping", "through"},
		{"SSH", "allow example.com", "SSH-2.0-me\r\n", "through"},
		{"nothing, denied", "deny example.com", "", "reset"},
		{"nothing", "allow example.com", "", "through"},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			var server recorder
			r := newRig(t, rules(t, test.rule), func(c *Config, l *limits) {
				if test.send == "" {
					silent(c, l)
				}
			})
			r.serve(name, 443, server.handle)
			c := r.connect(name, 443)
			if _, err := io.WriteString(c, test.send); err != nil {
				t.Fatal(err)
			}
			if test.want == "through" {
				c.CloseWrite()
			}
			said, end := outcome(c)
			switch test.want {
			case "through":
				if end != "eof" || said != "" || server.bytes() != test.send {
					t.Errorf("ended with %s after %q; the server got %q", end, said, server.bytes())
				}
				return
			case "reset":
				if end != "reset" || said != "" {
					t.Errorf("ended with %s after %q", end, said)
				}
			case "alert":
				if end != "eof" || len(said) != 7 || said[0] != 21 || said[5] != 2 {
					t.Errorf("ended with %s after %q", end, said)
				}
			default:
				if !strings.HasPrefix(said, "HTTP/1.1 "+test.want+" ") || !strings.Contains(said, "Connection: close") {
					t.Errorf("ended with %s after %q", end, said)
				}
			}
			if got := server.bytes(); got != "" {
				t.Errorf("the server got %q", got)
			}
		})
	}
}

func TestBareAddress(t *testing.T) {
	const rule = "allow 93.184.215.0/24"
	get := func(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	tests := []struct {
		what  string
		rules []string
		send  string
		want  string
	}{
		{"raw", []string{rule}, "\x00raw", "through"},
		{"raw, not allowed", nil, "\x00raw", "reset"},
		{"raw, name allowed only", []string{"allow example.com"}, "\x00raw", "reset"},
		{"TLS without a name", []string{rule}, string(clientHello(t, "")), "through"},
		{"TLS with a name", []string{rule}, string(clientHello(t, "example.com")), "alert"},
		{"TLS with an allowed name", []string{rule, "allow example.com"}, string(clientHello(t, "example.com")), "through"},
		{"TLS with a name to ask for", []string{rule, "ask example.com"}, string(clientHello(t, "example.com")), "alert"},
		{"HTTP with the address", []string{rule}, get("93.184.215.14"), "through"},
		{"HTTP with the address in another spelling", []string{rule}, get("[::ffff:93.184.215.14]"), "through"},
		{"HTTP with another address", []string{rule}, get("93.184.215.15"), "421"},
		{"HTTP with a name", []string{rule}, get("example.com"), "421"},
		{"HTTP with an allowed name", []string{rule, "allow example.com"}, get("example.com"), "through"},
		{"HTTP, not allowed", nil, get("93.184.215.14"), "403"},
		{"metadata", []string{"default=allow"}, get("169.254.169.254"), "403"},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			var server recorder
			r := newRig(t, rules(t, test.rules...))
			to := netip.AddrPortFrom(public, 80)
			if test.what == "metadata" {
				to = netip.MustParseAddrPort("169.254.169.254:80")
			}
			r.serveAt(to, server.handle)
			c := r.connectTo(to)
			if _, err := io.WriteString(c, test.send); err != nil {
				t.Fatal(err)
			}
			if test.want == "through" {
				c.CloseWrite()
			}
			said, end := outcome(c)
			ok := map[string]bool{
				"through": end == "eof" && said == "" && server.bytes() == test.send,
				"reset":   end == "reset" && said == "",
				"alert":   len(said) == 7 && said[0] == 21,
				"421":     strings.HasPrefix(said, "HTTP/1.1 421 "),
				"403":     strings.HasPrefix(said, "HTTP/1.1 403 "),
			}[test.want]
			if !ok {
				t.Errorf("ended with %s after %q; the server got %q", end, said, server.bytes())
			}
			if test.want != "through" && server.bytes() != "" {
				t.Errorf("the server got %q", server.bytes())
			}
		})
	}
}

// TestDestinationsOfNobody: addresses that are the sandbox's own or nobody's.
func TestDestinationsOfNobody(t *testing.T) {
	r := newRig(t, rules(t, "default=allow", "allow 0.0.0.0/0", "allow 127.0.0.0/8", "allow 198.18.0.0/15"))
	for _, to := range []string{
		"127.0.0.1:80", "[::1]:80", "0.0.0.0:80", "198.18.0.2:80", "198.18.0.1:853", "198.18.0.77:80",
		"198.18.0.4:443", "198.18.0.3:5432", "198.19.1.1:443", "[fd63:6f66:6665:7200::2]:80",
		"[fd63:6f66:6665:7201::9]:80", "224.0.0.1:80", "[::ffff:127.0.0.1]:80",
	} {
		if said, end := outcome(r.connectTo(netip.MustParseAddrPort(to))); end != "reset" || said != "" {
			t.Errorf("%s ended with %s after %q", to, end, said)
		}
	}
	if d := r.world.dialled(); len(d) > 0 {
		t.Errorf("dialled %v", d)
	}
}

// TestDenialIsAnAnswer: a refused HTTP request gets what it needs to know.
func TestDenialIsAnAnswer(t *testing.T) {
	r := newRig(t, rules(t, "allow other.com"))
	c := r.connect("example.com", 8080)
	io.WriteString(c, "POST /x?secret HTTP/1.1\r\nHost: example.com:8080\r\nContent-Length: 5\r\n\r\nhello")
	said, _ := outcome(c)
	_, body, _ := strings.Cut(said, "\r\n\r\n")
	var a answer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %q", err, said)
	}
	if a.Error != "denied" || a.Host != "example.com" || a.Port != 8080 || a.Rule != "default" || a.Reason == "" ||
		a.Allow != "coffer policy allow example.com:8080" {
		t.Errorf("%+v", a)
	}
	d := r.g.Denials()
	if len(d) != 1 || d[0].Host != "example.com" || d[0].Method != "POST" || d[0].Path != "/x" || d[0].Protocol != "http" {
		t.Errorf("denials: %+v", d)
	}
	e := r.waitEvents("flow", 1)[0]
	if e.Verdict != "deny" || e.Host != "example.com" || e.Rule != "default" || e.Method != "POST" || e.Path != "/x" || e.Sent != 0 {
		t.Errorf("event: %+v", e)
	}
	// Again: the list counts, and the user is told once.
	c = r.connect("example.com", 8080)
	io.WriteString(c, "POST /x HTTP/1.1\r\nHost: example.com:8080\r\n\r\n")
	outcome(c)
	r.waitEvents("flow", 2)
	r.mu.Lock()
	told := len(r.told)
	r.mu.Unlock()
	if d := r.g.Denials(); len(d) != 1 || d[0].Count != 2 || told != 1 {
		t.Errorf("denials: %+v, told %d times", d, told)
	}
}

// TestSpecialIsSaid: who thinks of allowing an address learns what kind it is, though no rule matched.
func TestSpecialIsSaid(t *testing.T) {
	r := newRig(t, rules(t, "allow other.com"))
	c := r.connectTo(netip.MustParseAddrPort("169.254.169.254:80"))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n")
	if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || !strings.Contains(said, "is a cloud metadata address") {
		t.Errorf("%q", said)
	}
	c = r.connectTo(netip.AddrPortFrom(public, 80))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+public.String()+"\r\n\r\n")
	if said, _ := outcome(c); !strings.Contains(said, "no rule matches") {
		t.Errorf("%q", said)
	}
}

// TestSilenceIsReset: a program that waits for the server to speak is refused after a moment,
// and one that speaks where programs do gets its answer however slow it is.
func TestSilenceIsReset(t *testing.T) {
	const never = time.Hour
	for _, test := range []struct {
		port       uint16
		sniff, web time.Duration
	}{{7, time.Millisecond, never}, {443, never, time.Millisecond}} {
		r := newRig(t, rules(t, "allow other.com"), func(_ *Config, l *limits) { l.sniff, l.web = test.sniff, test.web })
		if said, end := outcome(r.connect("example.com", test.port)); said != "" || end != "reset" {
			t.Errorf("port %d: %s after %q", test.port, end, said)
		}
	}
	r := newRig(t, rules(t, "allow other.com"), func(_ *Config, l *limits) { l.sniff, l.web = 1, never })
	c := r.connect("example.com", 8080)
	for _, part := range []string{"GE", "T / HTTP/1.1\r\n", "Host: example.com:8080\r\n\r\n"} {
		io.WriteString(c, part)
	}
	if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") {
		t.Errorf("%q", said)
	}
}

// TestSlowLine: what begins as half a line and becomes HTTP is not passed on as raw bytes.
func TestSlowLine(t *testing.T) {
	for second, want := range map[string]string{"T / HTTP/1.1\r\nHost: evil.com\r\n\r\n": "GE", "neral\n": "GEneral\n"} {
		var server recorder
		r := newRig(t, rules(t, "allow example.com"), func(_ *Config, l *limits) { l.sniff = 20 * time.Millisecond })
		first := make(chan struct{})
		r.serve("example.com", 80, func(c *net.TCPConn) {
			b := make([]byte, 2)
			io.ReadFull(c, b)
			server.Write(b)
			close(first)
			server.handle(c)
		})
		c := r.connect("example.com", 80)
		io.WriteString(c, "GE")
		<-first // it was taken for raw, because the program waits
		io.WriteString(c, second)
		c.CloseWrite()
		outcome(c)
		r.waitEvents("flow", 1)
		if got := server.bytes(); got != want {
			t.Errorf("the server got %q", got)
		}
	}
}

// TestTLSWorks: a whole handshake and both directions, by either kind of rule.
func TestTLSWorks(t *testing.T) {
	for _, rule := range []string{"allow example.com", "allow example.com tls"} {
		r := newRig(t, rules(t, rule))
		server := httptest.NewTLSServer(nil) // for its certificate, which is for example.com
		defer server.Close()
		r.serve("example.com", 443, func(c *net.TCPConn) {
			s := tls.Server(c, &tls.Config{Certificates: server.TLS.Certificates})
			io.Copy(s, s)
			s.Close()
		})
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		c := tls.Client(r.connect("example.com", 443), &tls.Config{ServerName: "example.com", RootCAs: roots})
		want := strings.Repeat("all is well ", 10000)
		go func() {
			io.WriteString(c, want)
			c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err != nil || string(got) != want {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
		c.Close()
		e := r.waitEvents("flow", 1)[0]
		if e.Verdict != "allow" || e.Protocol != "tls" || e.Host != "example.com" || e.Addr != public || e.Port != 443 ||
			e.Sent < int64(len(want)) || e.Received < int64(len(want)) || e.Rule != rule || e.Close == "" {
			t.Errorf("%+v", e)
		}
	}
}
