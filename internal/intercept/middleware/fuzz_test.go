package middleware

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// What a script says never makes a second request, nor one for another host.
func FuzzScriptToHTTP(f *testing.F) {
	f.Add("x-a", "b", "/v1?x=y", "hello", 200)
	f.Add("Content-Length", "0", "/a/../b", "GET / HTTP/1.1\r\n\r\n", 101)
	f.Add("x\r\ny", "a\r\nTransfer-Encoding: chunked", "/ HTTP/1.1\r\nHost: b\r\n\r\n", "", 99)
	f.Add("Host", "b.example", "//b.example/", "", 999)
	f.Add(" transfer-encoding", "chunked", "https://b.example/", "0\r\n\r\n", 204)
	f.Add("x-a", "ü\x00", "/%2e%2e/%2f", "x", 304)
	source := `pcall(req.setHeader, req, env.name, env.value)
		pcall(function() local h = req.headers h[env.name] = env.value req.headers = h end)
		pcall(function() req.path = env.path end)
		pcall(req.setBody, req, env.body)
		local res = req:send()
		pcall(res.setHeader, res, env.name, env.value)
		pcall(function() local h = res.headers h[env.name] = env.value res.headers = h end)
		pcall(function() res.status = tonumber(env.status) end)
		pcall(res.setBody, res, env.body)`
	script, err := Compile("fuzz.lua", []byte(source))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, value, path, body string, status int) {
		s := *script
		s.Env = map[string]string{"name": name, "value": value, "path": path, "body": body, "status": strconv.Itoa(status)}
		var out bytes.Buffer
		r := request("POST", "https://a.example/v1", "old")
		resp, err := s.Exchange(r, server(func(r *http.Request) (*http.Response, error) {
			if err := r.Write(&out); err != nil {
				t.Fatalf("the request cannot be written: %v", err)
			}
			return answer("Content-Length: 5", "plain")(r)
		}))
		if err != nil {
			t.Skip(err)
		}
		in := bufio.NewReader(&out)
		got, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("the request cannot be read: %v", err)
		}
		data, err := io.ReadAll(got.Body)
		if err != nil || got.Host != "a.example" || got.Method != "POST" || string(data) != body || in.Buffered() > 0 {
			t.Errorf("%s %s has the body %q, %v, and %d bytes follow", got.Method, got.Host, data, err, in.Buffered())
		}
		if clean := got.URL.EscapedPath(); !strings.HasPrefix(got.RequestURI, "/") || strings.Contains(clean, "//") || strings.Contains("/"+got.URL.Path+"/", "/../") {
			t.Errorf("the path is %q", got.RequestURI)
		}
		resp.Proto, resp.ProtoMajor, resp.ProtoMinor = "HTTP/1.1", 1, 1
		if resp.StatusCode == 204 || resp.StatusCode == 304 {
			return // they have no body
		}
		out.Reset()
		if err := resp.Write(&out); err != nil {
			t.Fatalf("the response cannot be written: %v", err)
		}
		in = bufio.NewReader(&out)
		back, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("the response cannot be read: %v", err)
		}
		data, err = io.ReadAll(back.Body)
		if err != nil || string(data) != body || back.StatusCode < 200 || back.StatusCode > 599 || in.Buffered() > 0 {
			t.Errorf("%d has the body %q, %v, and %d bytes follow", back.StatusCode, data, err, in.Buffered())
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: x\n\ndata: y\r\rdata:z\r\n\r\n"))
	f.Add([]byte("\ufeffevent: e\ndata\n\n:c\n\n"))
	script, err := Compile("fuzz.lua", []byte(`req:send():each(function() return "seen" end)`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		resp, err := script.Exchange(request("GET", "https://a.example/", ""), answer("Content-Type: text/event-stream", string(data)))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := io.ReadAll(resp.Body)
		for line := range strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if name, value, _ := strings.Cut(line, ":"); name == "data" && value != " seen" {
				t.Errorf("%q passed", line)
			}
		}
	})
}

func FuzzWebSocket(f *testing.F) {
	f.Add([]byte("\x81\x01x\x89\x00\x01\x01a\x80\x01b"))
	script, err := Compile("fuzz.lua", []byte(`req:send():each(function() return "seen" end)`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := frames{l: &listener{machine: newMachine(script)}}
		_, _ = in.pass(data) // without a function, every message is an error
	})
}
