package sniff

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goHello is the ClientHello of Go's own client.
func goHello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		tls.Client(client, c).Handshake()
		client.Close()
	}()
	defer server.Close()
	b := make([]byte, recordHeader)
	if _, err := io.ReadFull(server, b); err != nil {
		t.Fatal(err)
	}
	b = append(b, make([]byte, binary.BigEndian.Uint16(b[3:]))...)
	if _, err := io.ReadFull(server, b[recordHeader:]); err != nil {
		t.Fatal(err)
	}
	return b
}

// pieces packs the payload of a record into records of at most n bytes each.
func pieces(record []byte, n int) []byte {
	var out []byte
	for p := range slices.Chunk(record[recordHeader:], n) {
		out = append(out, record[0], record[1], record[2], byte(len(p)>>8), byte(len(p)))
		out = append(out, p...)
	}
	return out
}

// vector puts the length of the bytes before them, in n bytes.
func vector(n int, parts ...string) string {
	s := strings.Join(parts, "")
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(s)))
	return string(size[4-n:]) + s
}

func extension(typ uint16, data string) string {
	return string([]byte{byte(typ >> 8), byte(typ)}) + vector(2, data)
}

func serverName(names ...string) string {
	var list string
	for _, n := range names {
		list += "\x00" + vector(2, n)
	}
	return extension(0, vector(2, list))
}

// hello is a ClientHello in one record, with the given extensions.
func hello(extensions ...string) []byte {
	return record(helloBody(vector(2, extensions...)))
}

func record(body string) []byte {
	return []byte("\x16\x03\x01" + vector(2, "\x01"+vector(3, body)))
}

func helloBody(extensions string) string {
	return "\x03\x03" + strings.Repeat("r", 32) + vector(1, "session") + vector(2, "\x13\x01\x0a\x0a") + vector(1, "\x00") + extensions
}

func TestHelloOfGo(t *testing.T) {
	for name, c := range map[string]*tls.Config{
		"as it is":     {ServerName: "Www.Example.com", NextProtos: []string{"h2", "http/1.1"}},
		"TLS 1.0":      {ServerName: "www.example.com", NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
		"TLS 1.2":      {ServerName: "www.example.com", NextProtos: []string{"h2", "http/1.1"}, MaxVersion: tls.VersionTLS12},
		"trailing dot": {ServerName: "www.example.com.", NextProtos: []string{"h2", "http/1.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.InsecureSkipVerify = true
			b := goHello(t, c)
			if Classify(b) != TLS {
				t.Errorf("classified as %v", Classify(b))
			}
			for _, n := range []int{len(b), 4096, 100, 700} {
				in := append(pieces(b, n), "what follows"...)
				if n == 100 && len(b) > 100*maxRecords {
					continue
				}
				h, need, err := ParseClientHello(in)
				if err != nil || need != 0 || h.SNI != "www.example.com" || h.ECH || h.EarlyData || h.Len != len(in)-len("what follows") {
					t.Errorf("in pieces of %d: %+v, %d, %v", n, h, need, err)
				}
			}
			checkPrefixes(t, b)
			checkPrefixes(t, pieces(b, 200))
		})
	}
	// A key share of post-quantum cryptography makes it long.
	if b := goHello(t, &tls.Config{ServerName: "a.example", CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}); len(b) < 1300 {
		t.Errorf("only %d bytes", len(b))
	}
}

// checkPrefixes expects that a hello needs more until it is whole, and never more than
// there is.
func checkPrefixes(t testing.TB, b []byte) {
	t.Helper()
	h, _, err := ParseClientHello(b)
	if err != nil {
		t.Fatal(err)
	}
	for n := range h.Len {
		h2, need, err := ParseClientHello(b[:n])
		if err != nil || need <= 0 || need > h.Len-n || h2.Len != 0 {
			t.Fatalf("with %d of %d bytes: %+v, %d, %v", n, h.Len, h2, need, err)
		}
	}
}

// The files of testdata/client hold what programs have sent to a TLS server on loopback,
// from the first byte on; the name says which program.
func TestRecordedClients(t *testing.T) {
	tests := map[string]Hello{
		"curl-7.88":             {SNI: "www.example.com"},
		"curl-7.88-http1.1":     {SNI: "www.example.com"},
		"curl-7.88-no-alpn":     {SNI: "www.example.com"},
		"curl-7.88-address":     {},
		"node-20":               {SNI: "www.example.com"},
		"node-20-alpn":          {SNI: "www.example.com"},
		"node-20-resumed":       {SNI: "www.example.com"},
		"python-3.11":           {SNI: "www.example.com"},
		"python-3.11-resumed":   {SNI: "www.example.com"},
		"openssl-3.0":           {SNI: "www.example.com"},
		"openssl-3.0-no-name":   {},
		"openssl-3.0-tls1.2":    {SNI: "www.example.com"},
		"openssl-3.0-tls1.1":    {SNI: "www.example.com"},
		"openssl-3.0-resumed":   {SNI: "www.example.com"},
		"openssl-3.0-early":     {SNI: "www.example.com", EarlyData: true},
		"openssl-3.0-fragments": {SNI: "www.example.com"},
		"go-1.26":               {SNI: "www.example.com"},
		"go-1.26-tls1.2":        {SNI: "www.example.com"},
		"go-1.26-retry":         {SNI: "www.example.com"},
		"go-1.26-ech":           {SNI: "public.example", ECH: true},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			b := recorded(t, name)
			got, need, err := ParseClientHello(b)
			if err != nil || need != 0 || got.Len == 0 {
				t.Fatalf("%+v, %d, %v", got, need, err)
			}
			if got.SNI != want.SNI || got.ECH != want.ECH || got.EarlyData != want.EarlyData {
				t.Errorf("got %+v", got)
			}
			checkPrefixes(t, b)
			whole := name != "openssl-3.0-early" && name != "openssl-3.0-fragments"
			for _, n := range []int{1, 3, 100, len(b)} {
				done, err := watch(got, b[got.Len:], n)
				if err != nil || done != whole {
					t.Errorf("watched in pieces of %d: done %v, %v", n, done, err)
				}
			}
		})
	}
	if files, _ := os.ReadDir(filepath.Join("testdata", "client")); len(files) != len(tests) {
		t.Errorf("%d files, %d tests", len(files), len(tests))
	}
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "client", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHello(t *testing.T) {
	tests := []struct {
		name  string
		in    []byte
		want  Hello
		alert uint8 // 0: accepted
	}{
		{"with a name", hello(serverName("A.example")), Hello{SNI: "a.example"}, 0},
		{"with nothing", hello(), Hello{}, 0},
		{"without extensions", record(helloBody("")), Hello{}, 0},
		{"one label", hello(serverName("printer")), Hello{SNI: "printer"}, 0},
		{"underscore", hello(serverName("a_b.example")), Hello{SNI: "a_b.example"}, 0},
		{"trailing dot", hello(serverName("a.example.")), Hello{SNI: "a.example"}, 0},
		{"ECH", hello(serverName("a.example"), extension(0xfe0d, "\x00whatever")), Hello{SNI: "a.example", ECH: true}, 0},
		{"ECH without a name", hello(extension(0xfe0d, "")), Hello{ECH: true}, 0},
		{"draft of ECH", hello(extension(0xfe0a, "")), Hello{ECH: true}, 0},
		{"encrypted SNI", hello(extension(0xffce, "whatever")), Hello{ECH: true}, 0},
		{"early data", hello(extension(42, "")), Hello{EarlyData: true}, 0},
		{"GREASE", hello(extension(0x0a0a, ""), serverName("a.example"), extension(0x1a1a, "\x00"),
			extension(43, vector(1, "\x2a\x2a\x03\x04\x03\x03"))), Hello{SNI: "a.example"}, 0},
		{"protocols", hello(extension(16, vector(2, vector(1, "h2"), vector(1, "\x00\xff")))), Hello{}, 0},

		{"two names", hello(serverName("a.example", "b.example")), Hello{}, AlertIllegalParameter},
		{"the same name twice", hello(serverName("a.example", "a.example")), Hello{}, AlertIllegalParameter},
		{"two extensions with names", hello(serverName("a.example"), serverName("b.example")), Hello{}, AlertIllegalParameter},
		{"an extension twice", hello(extension(99, ""), extension(99, "")), Hello{}, AlertIllegalParameter},
		{"no name in the extension", hello(extension(0, "")), Hello{}, AlertDecodeError},
		{"empty list of names", hello(extension(0, vector(2))), Hello{}, AlertDecodeError},
		{"empty name", hello(serverName("")), Hello{}, AlertIllegalParameter},
		{"just a dot", hello(serverName(".")), Hello{}, AlertIllegalParameter},
		{"two trailing dots", hello(serverName("a.example..")), Hello{}, AlertIllegalParameter},
		{"leading dot", hello(serverName(".a.example")), Hello{}, AlertIllegalParameter},
		{"other type of name", hello(extension(0, vector(2, "\x01"+vector(2, "a.example")))), Hello{}, AlertDecodeError},
		{"not ASCII", hello(serverName("b\xc3\xbccher.example")), Hello{}, AlertIllegalParameter},
		{"NUL", hello(serverName("a.example\x00.b.example")), Hello{}, AlertIllegalParameter},
		{"port", hello(serverName("a.example:443")), Hello{}, AlertIllegalParameter},
		{"user", hello(serverName("a@b.example")), Hello{}, AlertIllegalParameter},
		{"IPv4 address", hello(serverName("192.0.2.1")), Hello{}, AlertIllegalParameter},
		{"IPv4 address, hexadecimal", hello(serverName("0xC0000201")), Hello{}, AlertIllegalParameter},
		{"IPv6 address", hello(serverName("2001:db8::1")), Hello{}, AlertIllegalParameter},
		{"long label", hello(serverName(strings.Repeat("a", 64) + ".example")), Hello{}, AlertIllegalParameter},
		{"long name", hello(serverName(strings.Repeat("a.", 127) + "a")), Hello{}, AlertIllegalParameter},
		{"bytes after the name", hello(extension(0, vector(2, "\x00"+vector(2, "a.example"))+"x")), Hello{}, AlertDecodeError},
		{"very many extensions", hello(manyExtensions(200)), Hello{}, AlertDecodeError},
		{"bytes after the extensions", record(helloBody(vector(2) + "x")), Hello{}, AlertDecodeError},
		{"cut in the random", record("\x03\x03rrrr"), Hello{}, AlertDecodeError},
		{"version 2.0", record("\x02\x00" + helloBody("")[2:]), Hello{}, AlertProtocolVersion},

		{"SSLv2", []byte("\x80\x2e\x01\x00\x02"), Hello{}, AlertProtocolVersion},
		{"an alert", []byte("\x15\x03\x01\x00\x02\x01\x5a"), Hello{}, AlertUnexpectedMessage},
		{"another handshake message", []byte("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), Hello{}, AlertUnexpectedMessage},
		{"an empty record", []byte("\x16\x03\x01\x00\x00"), Hello{}, AlertRecordOverflow},
		{"a record too long", []byte("\x16\x03\x01\x40\x01"), Hello{}, AlertRecordOverflow},
		{"a message too long", []byte("\x16\x03\x01\x40\x00\x01\x01\x00\x00"), Hello{}, AlertDecodeError},
		{"record of another version", []byte("\x16\x03\x05"), Hello{}, AlertProtocolVersion},
		{"an alert between pieces", append(pieces(hello(), 40)[:45], "\x15\x03\x01\x00\x02\x01\x5a"...), Hello{}, AlertUnexpectedMessage},
		{"many pieces", pieces(hello(serverName(strings.Repeat("a", 60))), 4), Hello{}, AlertDecodeError},
		{"two messages in a record", []byte("\x16\x03\x01" + vector(2, string(hello()[5:]), "\x01\x00\x00\x00")), Hello{}, AlertUnexpectedMessage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, need, err := ParseClientHello(tt.in)
			if need != 0 {
				t.Fatalf("needs %d bytes more", need)
			}
			var e *Error
			if errors.As(err, &e); tt.alert != 0 {
				if e == nil || e.Alert != tt.alert || e.Status != 0 {
					t.Errorf("%+v, %#v, want alert %d", h, err, tt.alert)
				}
				return
			}
			if err != nil || h.SNI != tt.want.SNI || h.ECH != tt.want.ECH || h.EarlyData != tt.want.EarlyData || h.Len != len(tt.in) {
				t.Errorf("got %+v, %v", h, err)
			}
		})
	}
}

func manyExtensions(n int) string {
	var s string
	for i := range n {
		s += extension(uint16(1000+i), "")
	}
	return s
}

// The largest hello is accepted, one more byte is not, and every byte is counted.
func TestLongHello(t *testing.T) {
	for _, tt := range []struct {
		filler int
		ok     bool
	}{{60000, true}, {65000, true}, {65535 - 80, false}} {
		body := helloBody(vector(2, serverName("a.example"), extension(21, string(make([]byte, tt.filler)))))
		msg := append(make([]byte, recordHeader), "\x01"+vector(3, body)...)
		copy(msg, "\x16\x03\x01")
		in := pieces(msg, maxRecord)
		h, need, err := ParseClientHello(in)
		if need != 0 || (err == nil) != tt.ok || tt.ok && h.SNI != "a.example" {
			t.Errorf("%d bytes: %q, %d, %v", len(in), h.SNI, need, err)
		}
	}
	endless := bytes.Repeat([]byte("\x16\x03\x01\x40\x00"+"\x01\x00\xff\x00"+strings.Repeat("x", maxRecord-4)), 5)
	if _, need, err := ParseClientHello(endless[:MaxHello+1]); need > 0 || err == nil {
		t.Errorf("more than the most: needs %d, %v", need, err)
	}
}
