package intercept

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// aWall is a server, and the stage in front of it.
type aWall struct {
	*Secrets
	server *httptest.Server

	mu    sync.Mutex
	notes []string
}

func newWall(t *testing.T, h http.HandlerFunc) *aWall {
	w := &aWall{server: httptest.NewTLSServer(h)}
	t.Cleanup(w.server.Close)
	u, _ := url.Parse(w.server.URL)
	w.Secrets = &Secrets{
		Bound: []Bound{
			{Name: "KEY", Placeholder: aStand, Hosts: func(host string, port uint16) bool {
				return host == u.Hostname() && fmt.Sprint(port) == u.Port()
			}, Headers: []string{"Authorization", "X-Key"}, Queries: []string{"key"}, Body: true, Value: func() (string, error) { return aSecret, nil }},
			{Name: "OTHER", Placeholder: "ghp_000000000000000000", Hosts: func(string, uint16) bool { return false }, Headers: []string{"Authorization"}},
		},
		Note: func(name, host string, refused bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notes = append(w.notes, fmt.Sprint(name, " ", refused))
		},
	}
	return w
}

func (w *aWall) do(t *testing.T, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	transport := w.server.Client().Transport.(*http.Transport).Clone()
	transport.DisableCompression = true
	t.Cleanup(transport.CloseIdleConnections)
	return w.Exchange(req, transport)
}

// A server that echoes all that it is sent gets the secret, and the program has its placeholder.
func TestSecretsEcho(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		var got string
		w := newWall(t, func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			user, pass, _ := r.BasicAuth()
			got = fmt.Sprint(r.Header.Get("X-Key"), user, pass, r.URL.Query().Get("key"), string(body), r.Header.Get("Range"))
			hint := rw.Header()
			hint.Set("Link", aSecret)
			rw.WriteHeader(http.StatusEarlyHints)
			hint.Del("Link")
			hint.Set("X-Echo", "a "+url.QueryEscape(aSecret))
			hint[aSecret] = []string{"a name"}
			hint.Set("Trailer", "X-End")
			var out io.Writer = rw
			switch encoding {
			case "gzip":
				z := gzip.NewWriter(rw)
				defer z.Close()
				out = z
			case "zstd":
				z, _ := zstd.NewWriter(rw)
				defer z.Close()
				out = z
			}
			hint.Set("Content-Encoding", encoding)
			_, _ = io.WriteString(out, strings.Repeat(got+"\n", 3000))
			hint.Set("X-End", aSecret)
		})
		hints := ""
		req := func() (*http.Response, error) {
			r, _ := http.NewRequest("POST", w.server.URL+"/x?a=b&key="+aStand+"&c", strings.NewReader(`{"k":"`+aStand+`"}`))
			r.Header.Set("X-Key", aStand)
			r.SetBasicAuth("me", aStand)
			r.Header.Set("Range", "bytes=0-20")
			r.Header.Set("Accept-Encoding", "gzip, br")
			r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				hints += h.Get("Link")
				return nil
			}}))
			return w.Exchange(r, w.server.Client().Transport)
		}
		resp, err := req()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		sent := fmt.Sprintf(`%[1]sme%[1]s%[1]s{"k":"%[1]s"}`, aSecret)
		if got != sent {
			t.Errorf("%s: the server got %q, want %q", encoding, got, sent)
		}
		if want := strings.ReplaceAll(strings.Repeat(sent+"\n", 3000), aSecret, aStand); string(text) != want || err != nil {
			t.Errorf("%s: the body is %.200q…, %v", encoding, text, err)
		}
		all := fmt.Sprint(resp.Header, resp.Trailer, hints)
		if strings.Contains(strings.ToLower(all), strings.ToLower(aSecret)) || strings.Count(all, aStand) != 3 || resp.Header.Get("Content-Encoding") == encoding && encoding != "identity" {
			t.Errorf("%s: %s", encoding, all)
		}
		if n := fmt.Sprint(w.notes); n != "[KEY false KEY false]" {
			t.Errorf("notes: %s", n)
		}
	}
}

// A placeholder elsewhere is a theft that failed.
func TestSecretsRefuse(t *testing.T) {
	t.Parallel()
	asked, got := false, ""
	w := newWall(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked, got = true, r.Header.Get("X-Key")+r.URL.Query().Get("key")+string(body)
	})
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("x", w.Bound[1].Placeholder)
	for _, c := range [][]string{
		{"/" + aStand}, {"/%73" + aStand[1:]}, {"/?other=" + aStand}, {"/?" + aStand + "=key"}, {"/?key=" + w.Bound[1].Placeholder},
		{"/", "Cookie", "a=" + aStand}, {"/", "Referer", "https://example.com/?key=" + aStand}, {"/", "User-Agent", aStand},
		{"/", "Authorization", "Bearer " + w.Bound[1].Placeholder}, {"/", "Authorization", basic.Header.Get("Authorization")},
	} {
		w.notes = nil
		_, err := w.do(t, "GET", c[0], nil, c[1:]...)
		var refused *Refusal
		if !errors.As(err, &refused) || asked || len(w.notes) != 1 || !strings.HasSuffix(w.notes[0], "true") {
			t.Fatalf("%q: %v, %v", c, err, w.notes)
		}
		if strings.Contains(err.Error(), aSecret) {
			t.Errorf("%q: the refusal tells the secret", c)
		}
	}
	part := aStand[:len(aStand)-1]
	if resp, err := w.do(t, "POST", "/?key="+part, strings.NewReader(part), "X-Key", part); err != nil || got != part+part+part {
		t.Errorf("a part of a placeholder: %v, the server got %q", err, got)
	} else {
		_ = resp.Body.Close()
	}
	asked = false
	w.Bound[0].Value = func() (string, error) { return "", errors.New("told nobody") }
	if _, err := w.do(t, "GET", "/", nil); err == nil || asked || strings.Contains(err.Error(), "told") {
		t.Errorf("a secret that cannot be had: %v", err)
	}
	w.Bound[0].Value = func() (string, error) { return "of another shape 123", nil }
	if _, err := w.do(t, "GET", "/", nil); err == nil || asked {
		t.Errorf("a secret of another shape: %v", err)
	}
}

// What cannot be searched is not passed on.
func TestSecretsUnreadable(t *testing.T) {
	t.Parallel()
	for _, h := range [][]string{{"Content-Encoding", "br"}, {"Content-Encoding", "gzip, gzip"}, {"Grpc-Encoding", "gzip"}} {
		w := newWall(t, func(rw http.ResponseWriter, r *http.Request) { rw.Header().Set(h[0], h[1]) })
		if _, err := w.do(t, "GET", "/", nil); err == nil {
			t.Errorf("%q is passed on", h)
		}
	}
}

// Events come when they are sent, compressed or not.
func TestSecretsStream(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		more := make(chan bool)
		w := newWall(t, func(rw http.ResponseWriter, r *http.Request) {
			var out interface {
				io.Writer
				Flush() error
			} = bufio.NewWriter(rw)
			switch encoding {
			case "gzip":
				out = gzip.NewWriter(rw)
			case "zstd":
				out, _ = zstd.NewWriter(rw)
			}
			rw.Header().Set("Content-Encoding", encoding)
			for range more {
				_, _ = io.WriteString(out, "data: "+aSecret+"\n\n")
				_ = out.Flush()
				_ = http.NewResponseController(rw).Flush()
			}
		})
		go func() { more <- true }()
		resp, err := w.do(t, "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		for range 3 {
			if line, err := lines.ReadString('\n'); line != "data: "+aStand+"\n" || err != nil {
				t.Fatalf("%s: %q, %v", encoding, line, err)
			}
			if line, err := lines.ReadString('\n'); line != "\n" || err != nil {
				t.Fatalf("%s: %q, %v", encoding, line, err)
			}
			more <- true
		}
		close(more)
		_ = resp.Body.Close()
	}
}

func frame(first byte, payload string) []byte {
	switch n := len(payload); {
	case n < 126:
		return append([]byte{first, byte(n)}, payload...)
	default:
		return append([]byte{first, 126, byte(n >> 8), byte(n)}, payload...)
	}
}

func TestSecretsWebSocket(t *testing.T) {
	t.Parallel()
	a, b := aSecret[:20], aSecret[20:]
	server := bytes.Join([][]byte{
		frame(0x81, "hello"), frame(0x81, "<"+aSecret+">"), frame(0x01, "x"+a), frame(0x89, aSecret), frame(0x00, ""), frame(0x80, b+"y"),
		frame(0x02, strings.Repeat("z", 300)+a), frame(0x80, "no"), frame(0x81, a), frame(0x88, "\x03\xe8"+aSecret),
	}, nil)
	want := bytes.ReplaceAll(server, []byte(aSecret), []byte(aStand))
	want = bytes.Replace(want, frame(0x01, "x"+a), frame(0x01, "x"+aStand[:20]), 1)
	want = bytes.Replace(want, frame(0x80, b+"y"), frame(0x80, aStand[20:]+"y"), 1)
	want = bytes.Replace(want, frame(0x81, a), frame(0x81, aStand[:20]), 1) // its end is cut off

	w := newWall(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Extensions") != "" {
			t.Error("frames could be compressed")
		}
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: "+r.Header.Get("X-Key")+"\r\n\r\n")
		_, _ = io.ReadFull(conn, make([]byte, 4))
		_, _ = conn.Write(server)
	})
	resp, err := w.do(t, "GET", "/", nil, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Extensions", "permessage-deflate", "X-Key", aStand)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("X-Key") != aStand {
		t.Errorf("the header has %s", resp.Header.Get("X-Key"))
	}
	conn := resp.Body.(io.ReadWriteCloser)
	_, _ = conn.Write([]byte("ping"))
	if got, err := io.ReadAll(conn); !bytes.Equal(got, want) || err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("got\n%q, want\n%q, %v", got, want, err)
	}
	_ = conn.Close()

	s := testSwapper(t, pair{aSecret, aStand})
	for size := 1; size < 60; size++ {
		got, err := io.ReadAll(&socketReader{swapper: s, src: &chunks{server, size}})
		if !bytes.Equal(got, want) || err != nil {
			t.Fatalf("in pieces of %d: got\n%q, want\n%q, %v", size, got, want, err)
		}
	}
	for _, bad := range []string{"\xc1\x01x", "\x81\x81maskx", "\x89\x7e\x00\x7f", "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00"} {
		if got, err := io.ReadAll(&socketReader{swapper: s, src: strings.NewReader(bad)}); err == nil {
			t.Errorf("%q is passed on as %q", bad, got)
		}
	}
	// A message that was begun may be kept, and its next frame as well.
	r := &socketReader{swapper: s, src: bytes.NewReader(append(frame(0x81, "ready"), frame(0x01, a)...))}
	p := make([]byte, 100)
	if n, err := r.Read(p); err != nil || !bytes.Equal(p[:n], append(frame(0x81, "ready"), 0x01, 20)) {
		t.Errorf("%q, %v", p[:n], err)
	}
}

// chunks is a reader of pieces of one size.
type chunks struct {
	text []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.text[:min(c.size, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

// Through both TLS connections, the server has the secret and the program never does.
func TestSecretsIntercepted(t *testing.T) {
	each(t, func(t *testing.T, h2 bool) {
		var got string
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = r.Header.Get("Authorization") + " " + string(body)
			w.Header().Set("Trailer", "X-End")
			w.Header().Set("X-Echo", got)
			_, _ = io.WriteString(w, got)
			w.Header().Set("X-End", got)
		})
		s.server.Stages = []Stage{&Secrets{
			Bound: []Bound{{Name: "KEY", Placeholder: aStand, Hosts: isExample, Headers: []string{"Authorization"}, Body: true, Value: func() (string, error) { return aSecret, nil }}},
			Note:  func(string, string, bool) {},
		}}
		ask := func(target string) (*http.Response, string) {
			r, _ := http.NewRequest("POST", target, struct{ io.Reader }{strings.NewReader("body " + aStand)})
			r.Header.Set("Authorization", "Bearer "+aStand)
			resp, err := s.client(h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			return resp, string(text)
		}
		resp, text := ask("https://example.com/")
		if want := "Bearer " + aSecret + " body " + aSecret; got != want {
			t.Errorf("the server got %q, want %q", got, want)
		}
		want := "Bearer " + aStand + " body " + aStand
		if text != want || resp.Header.Get("X-Echo") != want || resp.Trailer.Get("X-End") != want {
			t.Errorf("the program got %q, %v, %v", text, resp.Header, resp.Trailer)
		}
		got = ""
		if resp, text := ask("https://example.com/" + aStand); resp.StatusCode != http.StatusForbidden || got != "" || !strings.Contains(text, "the placeholder of the secret KEY is in the path") {
			t.Errorf("in the path: %s %s", resp.Status, text)
		}
	})
}

func isExample(host string, port uint16) bool { return host == "example.com" && port == 443 }

// BenchmarkIntercepted is a download with and without secrets.
func BenchmarkIntercepted(b *testing.B) {
	text := bytes.Repeat([]byte("data: {\"type\":\"delta\",\"text\":\"He said:\\n\\\"some words\\\" and more\\n\"}\n\n"), 32<<20/72)
	for _, stages := range [][]Stage{nil, {&Secrets{Note: func(string, string, bool) {}, Bound: []Bound{
		{Placeholder: aStand, Hosts: isExample, Value: func() (string, error) { return aSecret, nil }},
	}}}} {
		b.Run(fmt.Sprintf("stages=%d", len(stages)), func(b *testing.B) {
			s := newSite(b, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(text) })
			s.server.Stages = stages
			client := s.client(false)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				resp, err := client.Get("https://example.com/")
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); n != int64(len(text)) || err != nil {
					b.Fatal(n, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}

// FuzzScrubFrames has messages in frames of any size, which come in pieces of any size.
func FuzzScrubFrames(f *testing.F) {
	s := testSwapper(f, pair{aSecret, aStand})
	f.Add([]byte("x<y>zzz|<a"), uint64(1))
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		var in, want []byte
		for message := range bytes.SplitSeq(input[:min(len(input), 400)], []byte("|")) {
			text := strings.NewReplacer("<", aSecret, ">", aSecret[:20], "y", aSecret[20:]).Replace(string(message))
			clean := string(naive(s, []byte(text)))
			first := byte(1)
			for last := false; !last; first = 0 {
				n := r.IntN(min(len(text), 50) + 1)
				if last = n == len(text); last {
					first |= 0x80
				}
				in, want = append(in, frame(first, text[:n])...), append(want, frame(first, clean[:n])...)
				text, clean = text[n:], clean[n:]
				if r.IntN(3) == 0 {
					in, want = append(in, frame(0x8a, aSecret)...), append(want, frame(0x8a, aStand)...)
				}
			}
		}
		got, err := io.ReadAll(&socketReader{swapper: s, src: &pieces{in, r}})
		if !bytes.Equal(got, want) || err != nil {
			t.Errorf("%q became\n%q, want\n%q, %v", in, got, want, err)
		}
	})
}
