package sniff

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const host = "Host: a.example\r\n"

func TestHTTP(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want Request // Len and Minor are not compared
	}{
		{"plain", "GET /a/b?c=d HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "/a/b?c=d", Path: "/a/b", Host: "a.example", Port: 80}},
		{"case, port, trailing dot", "GET / HTTP/1.1\r\nhOST:\t A.Example.:8080 \r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 8080}},
		{"IPv6", "GET / HTTP/1.1\r\nHost: [2001:DB8:0::1]:81\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "2001:db8::1", Port: 81}},
		{"IPv6 without port", "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "::1", Port: 80}},
		{"IPv4", "GET / HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "0x7f.1", Port: 80}},
		{"absolute", "GET HTTP://A.example:80/x?y HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "HTTP://A.example:80/x?y", Path: "/x", Host: "a.example", Port: 80}},
		{"absolute without a path", "GET http://a.example HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "http://a.example", Path: "/", Host: "a.example", Port: 80}},
		{"absolute with just a query", "GET http://a.example?x=/y HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "http://a.example?x=/y", Path: "/", Host: "a.example", Port: 80}},
		{"two slashes", "GET //b.example/x HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "//b.example/x", Path: "//b.example/x", Host: "a.example", Port: 80}},
		{"asterisk", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "OPTIONS", Target: "*", Path: "*", Host: "a.example", Port: 80}},
		{"CONNECT", "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
			Request{Method: "CONNECT", Target: "a.example:443", Host: "a.example", Port: 443}},
		{"length", "PUT /x HTTP/1.1\r\n" + host + "Content-Length: 42\r\n\r\n",
			Request{Method: "PUT", Target: "/x", Path: "/x", Host: "a.example", Port: 80, ContentLength: 42}},
		{"chunked", "POST /x HTTP/1.1\r\n" + host + "transfer-encoding: Chunked\r\n\r\n",
			Request{Method: "POST", Target: "/x", Path: "/x", Host: "a.example", Port: 80, ContentLength: -1, Chunked: true}},
		{"close", "GET / HTTP/1.1\r\n" + host + "Connection: foo, Close\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 80, Close: true}},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 80, Close: true}},
		{"HTTP/1.0 that stays", "GET / HTTP/1.0\r\n" + host + "Connection: keep-alive\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 80}},
		{"upgrade", "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 80, Upgrade: "websocket"}},
		{"upgrade that Connection does not name", "GET / HTTP/1.1\r\n" + host + "Upgrade: h2c\r\nUpgrade: x\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 80, Upgrade: "h2c, x"}},
		{"what curl and browsers leave as it is", "GET /%c3%bc|{}\"^\\?q=\xc3\xbc%zz HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "GET", Target: "/%c3%bc|{}\"^\\?q=\xc3\xbc%zz", Path: "/%c3%bc|{}\"^\\", Host: "a.example", Port: 80}},
		{"WebDAV", "VERSION-CONTROL / HTTP/1.1\r\n" + host + "\r\n",
			Request{Method: "VERSION-CONTROL", Target: "/", Path: "/", Host: "a.example", Port: 80}},
		{"empty field", "GET / HTTP/1.1\r\n" + host + "Accept:\r\n\r\n",
			Request{Method: "GET", Target: "/", Path: "/", Host: "a.example", Port: 80}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in + "the body"
			if k := Classify([]byte(in)); k != HTTP {
				t.Errorf("classified as %v", k)
			}
			r, need, err := ParseHTTP([]byte(in))
			if err != nil || need != 0 || r.Len != len(tt.in) {
				t.Fatalf("%+v, %d, %v", r, need, err)
			}
			r.Len, r.Minor = 0, 0
			if r != tt.want {
				t.Errorf("got %+v, want %+v", r, tt.want)
			}
			for n := range tt.in {
				r, need, err := ParseHTTP([]byte(tt.in[:n]))
				if err != nil || need <= 0 || need > len(tt.in)-n || r != (Request{}) {
					t.Fatalf("with %d of %d bytes: %+v, %d, %v", n, len(tt.in), r, need, err)
				}
			}
		})
	}
}

func TestHTTPRefused(t *testing.T) {
	get := "GET / HTTP/1.1\r\n" + host
	post := "POST / HTTP/1.1\r\n" + host
	tests := []struct {
		name   string
		in     string
		status int
	}{
		// The request line.
		{"HTTP/0.9", "GET /\r\n", 400},
		{"HTTP/2", "GET / HTTP/2.0\r\n", 505},
		{"HTTP/3", "GET / HTTP/3\r\n", 505},
		{"HTTP/1.2", "GET / HTTP/1.2\r\n", 505},
		{"HTTP/0.9 by name", "GET / HTTP/0.9\r\n", 505},
		{"http/1.1", "GET / http/1.1\r\n", 400},
		{"version with a space after it", "GET / HTTP/1.1 \r\n", 400},
		{"two versions", "GET / HTTP/1.1 HTTP/1.1\r\n", 400},
		{"another protocol", "OPTIONS * RTSP/1.0\r\n", 400},
		{"two spaces", "GET  / HTTP/1.1\r\n", 400},
		{"tab", "GET\t/ HTTP/1.1\r\n", 400},
		{"tab in the target", "GET /\tx HTTP/1.1\r\n", 400},
		{"space in the target", "GET /a b HTTP/1.1\r\n", 400},
		{"vertical tab", "GET\v/ HTTP/1.1\r\n" + host + "\r\n", 400},
		{"empty line before", "\r\nGET / HTTP/1.1\r\n" + host + "\r\n", 400},
		{"method with a colon", "GET: / HTTP/1.1\r\n", 400},
		{"no method", " / HTTP/1.1\r\n", 400},
		{"long method", strings.Repeat("X", 33) + " / HTTP/1.1\r\n", 400},
		{"fragment", "GET /#x HTTP/1.1\r\n", 400},
		{"relative", "GET x HTTP/1.1\r\n", 400},
		{"empty target", "GET  HTTP/1.1\r\n", 400},
		{"asterisk", "GET * HTTP/1.1\r\n", 400},
		{"https", "GET https://a.example/ HTTP/1.1\r\n", 400},
		{"file", "GET file:///etc HTTP/1.1\r\n", 400},
		{"malformed escape", "GET /%4 HTTP/1.1\r\n", 400},
		{"NUL", "GET /\x00 HTTP/1.1\r\n" + host + "\r\n", 400},
		{"bare CR", "GET / HTTP/1.1\rHost: b.example\r\n" + host + "\r\n", 400},
		{"bare LF", "GET / HTTP/1.1\nHost: a.example\n\n", 400},
		{"bare LF later", get + "X: y\n\r\n", 400},
		{"bare LF as the empty line", get + "\n", 400},
		{"LF CR", get + "X: y\n\r\r\n\r\n", 400},
		{"CR CR LF", get + "X: y\r\r\n\r\n", 400},

		// Where it goes.
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"no Host in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", 400},
		{"no Host beside an absolute target", "GET http://a.example/ HTTP/1.1\r\n\r\n", 400},
		{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
		{"two Hosts", get + "Host: b.example\r\n\r\n", 400},
		{"the same Host twice", get + "host: a.example\r\n\r\n", 400},
		{"list of Hosts", "GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n", 400},
		{"Hosts with a space", "GET / HTTP/1.1\r\nHost: a.example b.example\r\n\r\n", 400},
		{"target of another host", "GET http://b.example/ HTTP/1.1\r\n" + host + "\r\n", 400},
		{"target with another port", "GET http://a.example:81/ HTTP/1.1\r\n" + host + "\r\n", 400},
		{"target with a user", "GET http://a.example@b.example/ HTTP/1.1\r\n" + host + "\r\n", 400},
		{"target without a host", "GET http:///x HTTP/1.1\r\n" + host + "\r\n", 400},
		{"target with a backslash", "GET http://a.example\\@b.example/ HTTP/1.1\r\n" + host + "\r\n", 400},
		{"user", "GET / HTTP/1.1\r\nHost: u@a.example\r\n\r\n", 400},
		{"user and password", "GET / HTTP/1.1\r\nHost: u:p@a.example\r\n\r\n", 400},
		{"URL as Host", "GET / HTTP/1.1\r\nHost: http://a.example\r\n\r\n", 400},
		{"path in Host", "GET / HTTP/1.1\r\nHost: a.example/x\r\n\r\n", 400},
		{"escape in Host", "GET / HTTP/1.1\r\nHost: a%2eexample\r\n\r\n", 400},
		{"not ASCII", "GET / HTTP/1.1\r\nHost: b\xc3\xbccher.example\r\n\r\n", 400},
		{"NUL in Host", "GET / HTTP/1.1\r\nHost: a.example\x00.b.example\r\n\r\n", 400},
		{"empty port", "GET / HTTP/1.1\r\nHost: a.example:\r\n\r\n", 400},
		{"port 0", "GET / HTTP/1.1\r\nHost: a.example:0\r\n\r\n", 400},
		{"port 65536", "GET / HTTP/1.1\r\nHost: a.example:65536\r\n\r\n", 400},
		{"port 080", "GET / HTTP/1.1\r\nHost: a.example:080\r\n\r\n", 400},
		{"port +80", "GET / HTTP/1.1\r\nHost: a.example:+80\r\n\r\n", 400},
		{"two ports", "GET / HTTP/1.1\r\nHost: a.example:80:81\r\n\r\n", 400},
		{"IPv6 without brackets", "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", 400},
		{"IPv6 with a zone", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", 400},
		{"IPv4 in brackets", "GET / HTTP/1.1\r\nHost: [127.0.0.1]\r\n\r\n", 400},
		{"text after brackets", "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 400},
		{"brackets without an end", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
		{"two trailing dots", "GET / HTTP/1.1\r\nHost: a.example..\r\n\r\n", 400},
		{"CONNECT without a port", "CONNECT a.example HTTP/1.1\r\n" + host + "\r\n", 400},
		{"CONNECT to another host", "CONNECT b.example:80 HTTP/1.1\r\n" + host + "\r\n", 400},
		{"CONNECT with a body", "CONNECT a.example:80 HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\n", 400},

		// Fields.
		{"space before the colon", get + "Content-Length : 5\r\n\r\n", 400},
		{"tab before the colon", get + "Transfer-Encoding\t: chunked\r\n\r\n", 400},
		{"no colon", get + "nothing\r\n\r\n", 400},
		{"no name", get + ": x\r\n\r\n", 400},
		{"folded", get + "X: y\r\n z\r\n\r\n", 400},
		{"folded with a tab", get + "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n", 400},
		{"space before the first field", "GET / HTTP/1.1\r\n Host: a.example\r\n\r\n", 400},
		{"name with a NUL", get + "X\x00: y\r\n\r\n", 400},
		{"value with a NUL", get + "X: y\x00z\r\n\r\n", 400},
		{"value with DEL", get + "X: \x7f\r\n\r\n", 400},
		{"name not ASCII", get + "Tr\xc3\xa4nsfer: y\r\n\r\n", 400},
		{"too many", get + strings.Repeat("X: y\r\n", 300) + "\r\n", 431},
		{"too long", get + "X: " + strings.Repeat("y", MaxHTTP) + "\r\n\r\n", 431},
		{"a line without an end", "GET /" + strings.Repeat("y", MaxHTTP), 431},

		// Where it ends.
		{"length and coding", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"coding and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
		{"two lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
		{"the same length twice", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
		{"list of lengths", post + "Content-Length: 5, 5\r\n\r\n", 400},
		{"length +5", post + "Content-Length: +5\r\n\r\n", 400},
		{"length -5", post + "Content-Length: -5\r\n\r\n", 400},
		{"length 0x5", post + "Content-Length: 0x5\r\n\r\n", 400},
		{"length 05", post + "Content-Length: 05\r\n\r\n", 400},
		{"length 5_0", post + "Content-Length: 5_0\r\n\r\n", 400},
		{"empty length", post + "Content-Length:\r\n\r\n", 400},
		{"endless length", post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		{"another coding", post + "Transfer-Encoding: gzip\r\n\r\n", 501},
		{"list of codings", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"identity", post + "Transfer-Encoding: identity\r\n\r\n", 501},
		{"chunked twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
		{"two codings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"xchunked", post + "Transfer-Encoding: xchunked\r\n\r\n", 501},
		{"chunked with a parameter", post + "Transfer-Encoding: chunked;q=1\r\n\r\n", 501},
		{"chunked in quotes", post + "Transfer-Encoding: \"chunked\"\r\n\r\n", 501},
		{"chunked after a vertical tab", post + "Transfer-Encoding: \vchunked\r\n\r\n", 400},
		{"empty coding", post + "Transfer-Encoding:\r\n\r\n", 501},
		{"chunked in HTTP/1.0", "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", 400},
		{"Host for the next hop only", get + "Connection: close, Host\r\n\r\n", 400},
		{"length for the next hop only", post + "Connection: Content-Length\r\nContent-Length: 5\r\n\r\n", 400},
		{"trailer that ends the request", post + "Transfer-Encoding: chunked\r\nTrailer: X, Content-Length\r\n\r\n", 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, need, err := ParseHTTP([]byte(tt.in))
			var e *Error
			if !errors.As(err, &e) || need != 0 || e.Status != tt.status || e.Alert != 0 || r != (Request{}) {
				t.Errorf("%+v, %d, %#v, want status %d", r, need, err, tt.status)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	in := []byte("GET /a/b?c=d HTTP/1.1\r\n" + host + "User-Agent: x\r\nAccept: */*\r\nCookie: " + fmt.Sprint(1<<60) + "\r\n\r\n")
	stream := recorded(b, "go-1.26")
	b.Run("HTTP", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ParseHTTP(in)
		}
	})
	b.Run("TLS", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ParseClientHello(stream)
		}
	})
}
