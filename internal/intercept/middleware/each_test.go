package middleware

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

const feed = "event: a\ndata: one\ndata: two\n\n: ping\n\ndata:three\r\nid: 7\r\n\r\nretry: 5\n\ndata: last"

func TestEvents(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"unchanged": {`req:send():each(function(e) end)`, "event: a\ndata: one\ndata: two\n\n: ping\n\ndata:three\nid: 7\n\nretry: 5\n\ndata: last\n\n"},
		"changed":   {`req:send():each(function(e) return e.data:upper() .. "\r\n" .. (e.event or "") .. (e.id or "") end)`, "event: a\ndata: ONE\ndata: TWO\ndata: a\n\n: ping\n\nid: 7\ndata: THREE\ndata: 7\n\nretry: 5\n\ndata: LAST\ndata: \n\n"},
		"dropped":   {`req:send():each(function(e) return not e.data:find("t") end)`, ": ping\n\nretry: 5\n\n"},
		"counted":   {`local n = 0 req:send():each(function(e) n = n + 1 return n end)`, "event: a\ndata: 1\n\n: ping\n\nid: 7\ndata: 2\n\nretry: 5\n\ndata: 3\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, resp, err := run(t, c.script, request("GET", "https://a.example/", ""), answer("Content-Type: text/event-stream; charset=utf-8\nContent-Length: 7", feed))
			if err != nil {
				t.Fatal(err)
			}
			if got := text4(t, resp); got != c.want || resp.ContentLength != -1 || resp.Header.Get("Content-Length") != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A mark at the beginning, which clients skip, does not hide an event.
func TestEventAfterMark(t *testing.T) {
	_, _, resp, err := run(t, `req:send():each(function(e) return "seen" end)`, request("GET", "https://a.example/", ""), answer("Content-Type: text/event-stream", "\ufeffdata: x\r\rdata: y\r\r"))
	if err != nil {
		t.Fatal(err)
	}
	if got := text4(t, resp); got != "data: seen\n\ndata: seen\n\n" {
		t.Errorf("%q", got)
	}
}

// An event is passed on when it is whole, and not when the next one comes.
func TestEventsAtOnce(t *testing.T) {
	down, end := io.Pipe()
	resp, err := compile(t, `req:send():each(function(e) return e.data .. "!" end)`).Exchange(request("GET", "https://a.example/", ""), server(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: down}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	for range 3 {
		go func() { _, _ = io.WriteString(end, "data: x\n\n") }()
		if n, err := resp.Body.Read(p); string(p[:n]) != "data: x!\n\n" || err != nil {
			t.Fatal(string(p[:n]), err)
		}
	}
	_ = resp.Body.Close()
}

// A function that fails ends the stream before the event.
func TestEventsFail(t *testing.T) {
	for name, script := range map[string]string{
		"error":  `req:send():each(function(e) error("x") end)`,
		"loop":   `req:send():each(function(e) while true do end end)`,
		"growth": `local all = {} req:send():each(function(e) for i = 1, 30 do all[#all + 1] = ("x"):rep(1e6 + i) end end)`,
		"length": `req:send():each(function(e) return ("x"):rep(2e6) end)`,
		"result": `req:send():each(function(e) return {} end)`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, resp, err := run(t, script, request("GET", "https://a.example/", ""), answer("Content-Type: text/event-stream", strings.Repeat("data: hidden\n\n", 100)))
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(resp.Body)
			if err == nil || name != "growth" && len(data) > 0 {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
	_, _, resp, err := run(t, `req:send():each(function(e) end)`, request("GET", "https://a.example/", ""), answer("Content-Type: text/event-stream", "data: "+strings.Repeat("x", maxEvent+1)))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(resp.Body); err == nil || len(data) > 0 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for header, script := range map[string]string{
		"Content-Type: text/plain":                                `req:send():each(function() end)`,
		"Content-Type: text/event-stream\nContent-Encoding: gzip": `req:send():each(function() end)`,
		"Content-Type: text/event-stream":                         `local r = req:send() r:each(function() end) r:body()`,
	} {
		if _, _, _, err := run(t, script, request("GET", "https://a.example/", ""), answer(header, "")); err == nil {
			t.Error(header)
		}
	}
}

// wire is a connection whose other side is buffers.
type wire struct {
	io.Reader
	bytes.Buffer
}

func (w *wire) Read(p []byte) (int, error) { return w.Reader.Read(p) }
func (w *wire) Close() error               { return nil }

func socketOf(t *testing.T, script, down string) (io.ReadWriteCloser, *wire) {
	t.Helper()
	w := &wire{Reader: strings.NewReader(down)}
	r := request("GET", "https://a.example/", "")
	r.Header = http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Extensions": {"permessage-deflate"}}
	resp, err := compile(t, script).Exchange(r, server(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Sec-Websocket-Extensions") != "" || r.Header.Get("Upgrade") == "" {
			t.Error("the server was asked for compression")
		}
		return &http.Response{StatusCode: 101, Header: http.Header{"Upgrade": {"websocket"}}, Body: w}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Body.(io.ReadWriteCloser), w
}

func TestWebSocket(t *testing.T) {
	long := strings.Repeat("x", 300)
	down := string(frame(nil, 1, []byte("hello"), nil)) + "\x01\x02wo\x89\x01p\x80\x03rld" + string(frame(nil, 2, []byte(long), nil))
	c, w := socketOf(t, `req:send():each(function(m) if m.data == "drop" then return false end return m.from .. m.type .. #m.data end)`, down)
	got, err := io.ReadAll(c)
	want := "\x81\x0bservertext5" + "\x89\x01p" + "\x81\x0bservertext5" + "\x82\x0fserverbinary300"
	if string(got) != want || err != nil {
		t.Errorf("the client got %q, want %q, %v", got, want, err)
	}
	mask := []byte{1, 2, 3, 4}
	up := frame(frame(nil, 1, []byte("drop"), mask), 1, []byte("keep"), mask)
	for _, b := range up {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if want := frame(nil, 1, []byte("clienttext4"), mask); !bytes.Equal(w.Bytes(), want) {
		t.Errorf("the server got %q, want %q", w.Bytes(), want)
	}
}

func TestWebSocketRefuses(t *testing.T) {
	for name, down := range map[string]string{
		"compressed":   "\xc1\x01x",
		"masked":       "\x81\x81\x00\x00\x00\x00x",
		"unknown":      "\x83\x01x",
		"long":         "\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
		"continuation": "\x80\x01x",
		"interleaved":  "\x01\x01x\x81\x01x",
		"long ping":    "\x89\x7e\x01\x00",
	} {
		c, _ := socketOf(t, `req:send():each(function(m) end)`, down)
		if got, err := io.ReadAll(c); err == nil || len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	c, w := socketOf(t, `req:send():each(function(m) error("x") end)`, "")
	if _, err := c.Write(frame(nil, 1, []byte("secret"), []byte{1, 2, 3, 4})); err == nil || w.Len() > 0 {
		t.Errorf("%q, %v", w.Bytes(), err)
	}
}
