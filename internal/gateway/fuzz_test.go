package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
)

// judge is a server that keeps what it gets, with a second opinion on it by parsers
// that are not ours.
type judge struct {
	got   bytes.Buffer
	wrong string
}

// web answers requests and wants each of them to be GET /ok for web.com.
func (j *judge) web(c *net.TCPConn) {
	br := bufio.NewReader(io.TeeReader(c, &j.got))
	for {
		q, err := http.ReadRequest(br)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !isNetError(err) {
				j.wrong = "not a request: " + err.Error()
			}
			return
		}
		path, ok1 := policy.NormalPath(q.URL.EscapedPath())
		host := strings.ToLower(strings.TrimSuffix(q.Host, ":80"))
		if q.Method != "GET" || !ok1 || path != "/ok" || strings.TrimSuffix(host, ".") != "web.com" {
			j.wrong = "a request that is not allowed: " + q.Method + " " + q.Host + " " + q.URL.String()
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		io.WriteString(c, ok)
		if q.Close {
			return
		}
	}
}

// tls wants a ClientHello for tls.com, if it is one at all.
func (j *judge) tls(c *net.TCPConn) {
	tee := io.TeeReader(c, &j.got)
	s := tls.Server(readOnly{Conn: c, r: tee}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if h.ServerName != "tls.com" {
			j.wrong = "a ClientHello for " + h.ServerName
		}
		return nil, errors.New("enough")
	}})
	_ = s.Handshake()
	_, _ = io.Copy(io.Discard, tee)
}

type readOnly struct {
	net.Conn
	r io.Reader
}

func (r readOnly) Read(b []byte) (int, error)  { return r.r.Read(b) }
func (r readOnly) Write(b []byte) (int, error) { return len(b), nil }

func isNetError(err error) bool {
	var n *net.OpError
	return errors.As(err, &n)
}

// FuzzConnection sends anything to destinations that allow little. A denied one must
// never be dialled; of the others, what passes must be what the rule allows in the eyes of
// another parser.
func FuzzConnection(f *testing.F) {
	hosts := []string{"denied.com", "web.com", "tls.com", "raw.com"}
	get := "GET /ok HTTP/1.1\r\nHost: web.com\r\n\r\n"
	for n := range hosts {
		for _, seed := range []string{
			"", "\x00", get, get + get, get + "GET /no HTTP/1.1\r\nHost: web.com\r\n\r\n", "GE",
			"GET /ok HTTP/1.1\r\nHost: web.com\r\nContent-Length: 3\r\n\r\nabc" + get,
			"GET /ok HTTP/1.1\r\nHost: web.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n" + get,
			"GET /ok HTTP/1.1\r\nHost: web.com\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" + get,
			"GET /ok HTTP/1.1\r\nHost: web.com\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc" + get,
			"GET http://web.com/ok HTTP/1.1\r\nHost: web.com\r\n\r\n", "GET /%6fk HTTP/1.0\r\nHost: web.com\r\n\r\n",
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "SSH-2.0-x\r\n", "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
			string(clientHello(f, "tls.com")), string(clientHello(f, "evil.com")), string(clientHello(f, "")),
		} {
			f.Add(uint8(n), []byte(seed))
		}
	}
	r := newRig(f, rules(f, "allow web.com http methods=GET paths=/ok", "allow tls.com tls", "allow raw.com"), func(c *Config, l *limits) {
		l.sniff, l.web, l.linger = time.Second, time.Second, time.Second
		dial := c.Dial // what was begun reaches the server, so that a verdict comes for each
		c.Dial = func(_ context.Context, n string, to netip.AddrPort) (net.Conn, error) {
			return dial(context.Background(), n, to)
		}
	})
	verdicts := make(chan *judge, 16)
	handle := func(run func(*judge, *net.TCPConn)) func(*net.TCPConn) {
		return func(c *net.TCPConn) {
			j := &judge{}
			run(j, c)
			verdicts <- j
		}
	}
	r.serve("denied.com", 80, echo)
	for n, run := range []func(*judge, *net.TCPConn){(*judge).web, (*judge).tls, func(j *judge, c *net.TCPConn) { io.Copy(&j.got, c) }} {
		name := hosts[n+1]
		r.world.name(name, []netip.Addr{netip.AddrFrom4([4]byte{93, 184, 215, byte(20 + n)})})
		r.serve(name, 80, handle(run))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		name := hosts[int(which)%len(hosts)]
		before := len(r.world.dialled())
		v4, _ := r.g.table.Addresses(name)
		c, err := r.link.open(netip.AddrPortFrom(v4, 80))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = c.Write(data)
		_ = c.CloseWrite()
		said, end := outcome(c)
		if end != "eof" && end != "reset" && !bytes.Contains([]byte(end), []byte("broken pipe")) {
			t.Fatalf("%s: ended with %s after %q", name, end, said)
		}
		for r.open() > 0 { // a dial may still be on its way
			time.Sleep(10 * time.Microsecond)
		}
		if len(r.world.dialled()) == before {
			return
		}
		if name == "denied.com" {
			t.Fatal("a denied destination was dialled")
		}
		select {
		case j := <-verdicts:
			if j.wrong != "" {
				t.Fatalf("%s got %s\nfrom %q", name, j.wrong, data)
			}
			if !bytes.HasPrefix(data, j.got.Bytes()) && name != "web.com" {
				t.Fatalf("%s got %q of %q", name, j.got.Bytes(), data)
			}
		case <-time.After(time.Minute):
			t.Fatal("the server was not told of the end")
		}
	})
}

// FuzzResponse lets a server answer anything. The program gets it as it is.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{"", ok, ok + ok, "HTTP/1.1 101 Switching Protocols\r\n\r\nx", "x", "HTTP/1.0 200 OK\r\n\r\nx"} {
		f.Add([]byte(seed))
	}
	r := newRig(f, rules(f, "allow example.com http"))
	responses := make(chan []byte, 1)
	r.serve("example.com", 80, func(c *net.TCPConn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = c.Write(<-responses)
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		v4, _ := r.g.table.Addresses("example.com")
		c, err := r.link.open(netip.AddrPortFrom(v4, 80))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		responses <- data
		_, _ = io.WriteString(c, getRequest)
		if said, end := outcome(c); end != "eof" || said != string(data) {
			t.Fatalf("ended with %s after %q of %q", end, said, data)
		}
	})
}
