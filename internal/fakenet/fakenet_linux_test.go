package fakenet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(func() { os.Exit(m.Run()) }) }

func TestOutside(t *testing.T) {
	if err := alone(); err == nil && here == nil {
		t.Error("the host's network is taken for a new one")
	}
}

func TestWorld(t *testing.T) {
	w := Enter(t)
	if w == nil {
		return
	}
	t.Run("names", func(t *testing.T) { names(t, w) })
	t.Run("web", func(t *testing.T) { web(t, w) })
	t.Run("streams", func(t *testing.T) { streams(t, w) })
	t.Run("own", func(t *testing.T) { own(t) })
}

func names(t *testing.T, w *World) {
	w.Zone.Set("turns.example", "20.0.0.5", "127.0.0.1")
	for _, want := range []string{"20.0.0.5", "127.0.0.1", "20.0.0.5"} {
		got, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip4", "turns.example")
		if err != nil || len(got) != 1 || got[0].Unmap() != netip.MustParseAddr(want) {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
	if !w.Log.Seen(`^dns \S+:53 .*turns\.example\. TypeA `) {
		t.Errorf("the question is not in the log:\n%s", w.Log)
	}
	for _, network := range []string{"udp", "tcp"} { // somebody else's server is asked in its own name
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return net.Dial(network, "[2a0f::53]:53")
		}}
		if txt, err := r.LookupTXT(context.Background(), network+".example"); err != nil || len(txt) != 1 {
			t.Errorf("by %s: %v, %v", network, txt, err)
		}
		if !w.Log.Seen(`^dns 2a0f::53:53 .*` + network + `\.example\. TypeTXT`) {
			t.Errorf("by %s: not in the log", network)
		}
	}
}

func web(t *testing.T, w *World) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for _, url := range []string{
		"http://a.example/word", "https://b.example/word", "http://169.254.169.254/word", "http://[2a0f::7]:8080/word", "http://10.1.2.3/word",
	} {
		resp, err := client.Get(url)
		if err != nil {
			t.Error(err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(string(body), "/word") {
			t.Errorf("%s: %s %s", url, resp.Status, body)
		}
	}
	client.CloseIdleConnections()
	hidden := &tls.Config{ServerName: "inner.example", RootCAs: pool, EncryptedClientHelloConfigList: w.ECH}
	c, err := tls.Dial("tcp", "20.0.0.1:443", hidden)
	if err != nil || !c.ConnectionState().ECHAccepted {
		t.Errorf("an encrypted ClientHello: %v", err)
	} else {
		c.Close()
	}
	if err := w.Log.Flush(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`^http 2[0a]\S+:80 GET /word.*a\.example`, `^tls .*sni=b\.example .*GET /word`, `^http 169\.254\.169\.254:80 `, `^http 2a0f::7:8080 `, `^tls .*sni=inner\.example`} {
		if !w.Log.Seen(want) {
			t.Errorf("%s is not in the log:\n%s", want, w.Log)
		}
	}
	w.Log.Reset()
	if w.Log.Seen("word") {
		t.Error("the log remembers what it was to forget")
	}
}

func streams(t *testing.T, w *World) {
	for _, s := range []struct{ network, to, say, want string }{
		{"tcp", "20.0.0.1:7", "hello", "hello"},
		{"udp", "20.0.0.1:7", "hello", "hello"},
		{"udp", "[2a0f::9]:443", "hello", "hello"},
		{"tcp", "20.0.0.1:22", "", "SSH-2.0"},
		{"tcp", "20.0.0.1:5432", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "N"},
		{"tcp", "20.0.0.1:3128", "CONNECT 10.9.8.7:7 HTTP/1.1\r\n\r\n", "HTTP/1.1 200"},
	} {
		c, err := net.Dial(s.network, s.to)
		if err != nil {
			t.Error(err)
			continue
		}
		fmt.Fprint(c, s.say)
		got, err := bufio.NewReader(c).Peek(len(s.want))
		c.Close()
		if string(got) != s.want {
			t.Errorf("%s %s: %q, %v", s.network, s.to, got, err)
		}
	}
	if err := w.Log.Flush(); err != nil {
		t.Error(err)
	}
	if !w.Log.Seen(`^echo 10\.9\.8\.7:7 `) || !w.Log.Seen(`^udp 2a0f::9:443 hello`) {
		t.Errorf("the log:\n%s", w.Log)
	}
}

// own: that an address can be reached does not make it the host's.
func own(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, a.(*net.IPNet).IP.String())
	}
	if all := strings.Join(got, " "); all != "127.0.0.1 "+Own4+" "+OwnLAN+" ::1 "+Own6 && all != "127.0.0.1 "+Own4+" "+OwnLAN+" "+Own6+" ::1" {
		t.Errorf("the host has %s", all)
	}
}
