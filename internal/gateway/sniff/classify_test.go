package sniff

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		in   string
		want Kind
	}{
		{"", NeedMore},
		{"\x16", NeedMore},
		{"\x16\x03", TLS},
		{"\x16\x03\x01\x02\x00\x01", TLS},
		{"\x15\x03\x01\x00\x02\x01\x5a", TLS}, // an alert first, which some servers overlook
		{"\x16\x02", Unknown},
		{"\x80\x2e\x01\x00\x02", TLS}, // SSLv2
		{"\x80\x2e\x01\x03\x01", TLS}, // SSLv2 that offers TLS 1.0
		{"\x80\x2e\x01\x00", NeedMore},
		{"\x80\x2e\x02", Unknown},

		{"G", NeedMore},
		{"GET", NeedMore},
		{"GET ", HTTP},
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP},
		{"GET /\r\n", HTTP}, // HTTP/0.9
		{"GET\t/ HTTP/1.1\r\n", HTTP},
		{"GET\v/ HTTP/1.1\r\n", HTTP},
		{"\r\n\r\nGET / HTTP/1.1\r\n", HTTP},
		{" \n", NeedMore},
		{"PROPFIND /x HTTP/1.1\r\n", HTTP},
		{"PROPFIND /x", NeedMore},
		{"PROPFIND /\x01 HTTP/1.1\r\n", HTTP},
		{"OPTIONS * HTTP/1.1\r\n", HTTP},
		{"CONNECT a:443 HTTP/1.1\r\n", HTTP},
		{"get / http/1.1\r\n", HTTP},
		{"ODD http://\xc3\xbc/ HTTP/1.1", HTTP},
		{strings.Repeat("X", MaxHTTP-1), NeedMore},
		{strings.Repeat("X", MaxHTTP), HTTP},

		{"PRI * HTTP/2.0\r", NeedMore},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", H2Preface},
		{"PRI * HTTP/2.1\r\n", HTTP},
		{"PRO", NeedMore},
		{"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\nGET / HTTP/1.1\r\n", Proxied},
		{"\r\n\r\n\x00\r\nQUIT", NeedMore},
		{"\r\n\r\n\x00\r\nQUIT\n\x21\x11", Proxied},
		{"SSH", NeedMore},
		{"SSH-2.0-OpenSSH_9.6\r\n", SSH},

		{"EHLO there\r\n", Unknown},
		{"CONNECT {\"verbose\":false}\r\n", Unknown}, // NATS
		{"OPTIONS rtsp://a/ RTSP/1.0\r\n", Unknown},
		{"*1\r\n$4\r\nPING\r\n", Unknown}, // Redis
		{"0032git-upload-pack /project\x00host=a\x00", Unknown},
		{"AMQP\x00\x00\x09\x01", Unknown},
		{"0\x0c\x02\x01\x01", Unknown},                 // LDAP
		{"\x00\x00\x00\x08\x04\xd2\x16\x2f", Unknown},  // Postgres
		{"\x05\x01\x00", Unknown},                      // SOCKS
		{"( 2 ( edit-pipeline svndiff1", Unknown},      // Subversion
		{"HTTP/1.1 200 OK\r\n", Unknown},               // an answer
		{"\x13BitTorrent protocol\x00\x00", Unknown},   // and others
		{"\x10\x0c\x00\x04MQTT\x04\x02\x00", Unknown},  // MQTT
		{"3a\x00\x00\x00\xd4\x07\x00\x00", Unknown},    // MongoDB
		{"NICK coffer\r\nUSER coffer 0 * :c", Unknown}, // IRC
	}
	for _, tt := range tests {
		if got := Classify([]byte(tt.in)); got != tt.want {
			t.Errorf("Classify(%.40q) = %v, want %v", tt.in, got, tt.want)
		}
		for n := range min(len(tt.in), 100) {
			if got := Classify([]byte(tt.in[:n])); got != NeedMore && got != tt.want {
				t.Errorf("Classify(%q) = %v, but %v of the whole", tt.in[:n], got, tt.want)
			}
		}
	}
}

func TestAlertIsUnderstood(t *testing.T) {
	for _, max := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client, server := net.Pipe()
		go func() {
			server.Read(make([]byte, MaxHello))
			server.Write(Alert(AlertAccessDenied))
			server.Close()
		}()
		err := tls.Client(client, &tls.Config{ServerName: "a.example", MaxVersion: max}).Handshake()
		var alert tls.AlertError
		if !errors.As(err, &alert) && !strings.Contains(err.Error(), "access denied") {
			t.Errorf("with version %x: %v", max, err)
		}
	}
}

func TestAnswerIsUnderstood(t *testing.T) {
	type denial struct {
		Host string `json:"host"`
		Hint string `json:"hint"`
	}
	sent := denial{"a.example", "ask\r\nX: y"}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(Answer(403, sent))), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	var got denial
	if err != nil || json.Unmarshal(body, &got) != nil || got != sent {
		t.Errorf("body %q, %v", body, err)
	}
	if r.Status != "403 Forbidden" || !r.Close || r.Header.Get("Content-Type") != "application/json" || int(r.ContentLength) != len(body) {
		t.Errorf("%s, close %v, %v", r.Status, r.Close, r.Header)
	}
	if b := Answer(400, make(chan int)); !bytes.HasSuffix(b, []byte("\r\n\r\n{}\n")) {
		t.Errorf("what cannot be JSON: %q", b)
	}
}
