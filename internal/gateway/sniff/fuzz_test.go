package sniff

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/cryptobyte"
	"time"
)

// addClients adds what real programs have sent.
func addClients(f *testing.F, add func(b []byte)) {
	files, err := os.ReadDir(filepath.Join("testdata", "client"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		add(recorded(f, file.Name()))
	}
}

// A prefix may need more, but never says anything else than the whole.
func FuzzHello(f *testing.F) {
	addClients(f, func(b []byte) { f.Add(b, 20) })
	f.Add(hello(serverName("a.example", "b.example")), 5)
	f.Add(hello(extension(16, vector(2, vector(1, "h2"))), extension(0xfe0d, "x")), 6)
	f.Add(pieces(hello(serverName("a.example.")), 9), 7)
	f.Add([]byte("\x80\x2e\x01\x03\x01"), 3)
	f.Add([]byte("SSH-2.0-x\r\n"), 2)
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 12)
	f.Add([]byte("\r\nPROPFIND / HTTP/1.1\r\n"), 12)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		kind := Classify(b)
		h, need, err := ParseClientHello(b)
		checkVerdict(t, len(b), h.Len, need, err)
		if err == nil && need == 0 && kind != TLS {
			t.Fatalf("a ClientHello is classified as %v", kind)
		}
		if cut >= 0 && cut < len(b) {
			if k := Classify(b[:cut]); k != NeedMore && k != kind {
				t.Fatalf("%v, but %v as a whole", k, kind)
			}
			_, less, lessErr := ParseClientHello(b[:cut])
			if err == nil && lessErr != nil {
				t.Fatalf("only a part is refused: %v", lessErr)
			}
			if err == nil && need == 0 && cut < h.Len && (less <= 0 || less > h.Len-cut) {
				t.Fatalf("%d of %d bytes need %d", cut, h.Len, less)
			}
		}
	})
}

// From whatever extensions are accepted Go's server reads the same. (A target of its own,
// because what a server does depends on chance.)
func FuzzExtensions(f *testing.F) {
	addClients(f, func(b []byte) {
		h, _, err := ParseClientHello(b)
		if err != nil {
			f.Fatal(err)
		}
		r := cryptobyte.String(b[recordHeader+handshakeHeader+2+32 : h.Len])
		var skipped, e cryptobyte.String
		r.ReadUint8LengthPrefixed(&skipped)
		r.ReadUint16LengthPrefixed(&skipped)
		r.ReadUint8LengthPrefixed(&skipped)
		if r.ReadUint16LengthPrefixed(&e) {
			f.Add([]byte(e))
		}
	})
	f.Add([]byte(serverName("a.example")))
	f.Add([]byte(serverName("A.example.")))
	f.Add([]byte(serverName("a.example") + serverName("b.example")))
	f.Add([]byte(serverName("a.example", "b.example")))
	f.Add([]byte(extension(16, vector(2, vector(1, "h2"))) + serverName("a")))
	f.Fuzz(func(t *testing.T, extensions []byte) {
		if len(extensions) > maxRecord/2 {
			return
		}
		b := hello(string(extensions))
		h, need, err := ParseClientHello(b)
		checkVerdict(t, len(b), h.Len, need, err)
		if err != nil {
			return
		}
		seen := goHelloInfo(b)
		if seen != nil && !strings.EqualFold(seen.ServerName, h.SNI) {
			t.Fatalf("%q, for Go %q", h.SNI, seen.ServerName)
		}
	})
}

// checkVerdict expects one of: accepted, needs more, refused.
func checkVerdict(t *testing.T, size, used, need int, err error) {
	t.Helper()
	var e *Error
	switch {
	case err != nil:
		if !errors.As(err, &e) || (e.Status == 0) == (e.Alert == 0) || need != 0 || used != 0 {
			t.Fatalf("refused with %#v, needs %d, used %d", err, need, used)
		}
	case need < 0, need > 0 && used != 0, need == 0 && (used <= 0 || used > size), need > 0 && size >= MaxHello:
		t.Fatalf("used %d of %d, needs %d", used, size, need)
	}
}

// goHelloInfo is what Go's server reads from a ClientHello, nil if it refuses it.
func goHelloInfo(b []byte) (seen *tls.ClientHelloInfo) {
	tls.Server(script{bytes.NewReader(b)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = info
			return nil, io.EOF
		},
	}).Handshake()
	return seen
}

// A script is a connection on which everything that will come is known.
type script struct{ io.Reader }

func (script) Write(p []byte) (int, error)      { return len(p), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return nil }
func (script) RemoteAddr() net.Addr             { return nil }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

// In how many pieces the bytes come makes no difference.
func FuzzWatch(f *testing.F) {
	addClients(f, func(b []byte) {
		if h, need, err := ParseClientHello(b); err == nil && need == 0 {
			f.Add(b[h.Len:], 7, h.EarlyData)
		}
	})
	f.Add([]byte("\x14\x03\x03\x00\x01\x01"+string(hello(serverName("b.example")))), 3, false)
	f.Add(pieces(hello(serverName("www.example.com")), 30), 2, true)
	f.Fuzz(func(t *testing.T, b []byte, n int, early bool) {
		first := Hello{SNI: "www.example.com", EarlyData: early}
		done, err := watch(first, b, max(len(b), 1))
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Alert == 0) {
			t.Fatalf("refused with %#v", err)
		}
		if n > 0 && n < len(b) {
			done2, err2 := watch(first, b, n)
			if done2 != done || (err2 == nil) != (err == nil) {
				t.Fatalf("%v, %v, but %v, %v in pieces of %d", done, err, done2, err2, n)
			}
		}
	})
}

// Whatever is accepted, net/http reads in the same way.
func FuzzHTTP(f *testing.F) {
	for _, s := range []string{
		"GET /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
		"GET http://A.example:80/x HTTP/1.0\r\nHost: a.example.\r\nConnection: keep-alive\r\n\r\n",
		"POST /%41 HTTP/1.1\r\nHost: [::1]:81\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n\r\n",
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.example\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET /\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\nExpect: 100-continue\r\n\r\n",
	} {
		f.Add([]byte(s), 10)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		r, need, err := ParseHTTP(b)
		checkVerdict(t, len(b), r.Len, need, err)
		if cut >= 0 && cut < len(b) {
			_, less, lessErr := ParseHTTP(b[:cut])
			if err == nil && lessErr != nil {
				t.Fatalf("only a part is refused: %v", lessErr)
			}
			if err == nil && need == 0 && cut < r.Len && (less <= 0 || less > r.Len-cut) {
				t.Fatalf("%d of %d bytes need %d", cut, r.Len, less)
			}
		}
		if err == nil && need == 0 {
			compare(t, b, r)
		}
	})
}

// compare holds a request against how net/http reads it.
func compare(t *testing.T, b []byte, r Request) {
	t.Helper()
	if k := Classify(b); k != HTTP {
		t.Fatalf("a request is classified as %v", k)
	}
	rest := bytes.NewReader(b)
	in := bufio.NewReader(rest)
	g, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", b[:r.Len], err)
	}
	if used := len(b) - rest.Len() - in.Buffered(); used != r.Len {
		t.Errorf("%d bytes, for net/http %d", r.Len, used)
	}
	if g.Method != r.Method || g.RequestURI != r.Target || g.ProtoMajor != 1 || g.ProtoMinor != r.Minor {
		t.Errorf("%s %s HTTP/1.%d, for net/http %s %s %s", r.Method, r.Target, r.Minor, g.Method, g.RequestURI, g.Proto)
	}
	if h, port, ok := hostPort(g.Host); !ok || h != r.Host || port != r.Port {
		t.Errorf("host %s port %d, for net/http %s", r.Host, r.Port, g.Host)
	}
	if chunked := slices.Equal(g.TransferEncoding, []string{"chunked"}); chunked != r.Chunked || g.ContentLength != r.ContentLength {
		t.Errorf("length %d, chunked %v, for net/http %d, %v", r.ContentLength, r.Chunked, g.ContentLength, g.TransferEncoding)
	}
	if g.Close != r.Close {
		t.Errorf("close %v, for net/http %v", r.Close, g.Close)
	}
	if path := g.URL.EscapedPath(); r.Method != "CONNECT" && path != r.Path && g.URL.Path != r.Path && path+"/" != r.Path {
		t.Errorf("path %q, for net/http %q", r.Path, path)
	}
}

// Where a chunked body ends for a Body it ends for net/http, and in how many pieces
// it comes makes no difference.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1", "1\r\na\r\n0\r\nDigest: x\r\n\r\nGET",
		"1;a=b\r\nx\r\n0\r\n\r\n", "1\nx\r\n0\r\n\r\n", "0\r\nHost: b.example\r\n\r\n", "ffffffffffffffff\r\n",
	} {
		f.Add([]byte(s), 2)
	}
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		r := Request{Chunked: true, ContentLength: -1}
		used, done, err := follow(r, b, max(len(b), 1))
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Status == 0) || used < 0 || used > len(b) {
			t.Fatalf("used %d of %d, %#v", used, len(b), err)
		}
		if n > 0 && n < len(b) {
			used2, done2, err2 := follow(r, b, n)
			if done2 != done || (err2 == nil) != (err == nil) || err == nil && used2 != used {
				t.Fatalf("%d, %v, %v, but %d, %v, %v in pieces of %d", used, done, err, used2, done2, err2, n)
			}
		}
		if !done {
			return
		}
		rest := bytes.NewReader(b)
		in := bufio.NewReader(rest)
		if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(in)); err != nil {
			t.Fatalf("net/http refuses %q: %v", b[:used], err)
		}
		for { // it leaves the trailers
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "\r\n" {
				break
			}
		}
		if goUsed := len(b) - rest.Len() - in.Buffered(); goUsed != used {
			t.Fatalf("ends after %d bytes, for net/http after %d", used, goUsed)
		}
	})
}

// The comparison of FuzzExtensions can fail: Go's server reads something.
func TestGoReadsHellos(t *testing.T) {
	for name, b := range map[string][]byte{
		"www.example.com": recorded(t, "curl-7.88"),
		"a.example":       hello(serverName("a.example")),
	} {
		if seen := goHelloInfo(b); seen == nil || seen.ServerName != name {
			t.Errorf("Go read %+v, want %s", seen, name)
		}
	}
}
