package policy

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	a := addr("127.0.0.1")
	for in, want := range map[string]Query{
		"https://Example.com/a?b#c":          {Host: "example.com", Port: 443, Protocol: TLS, Method: "GET", Path: "/a?b"},
		"https://example.com:8443":           {Host: "example.com", Port: 8443, Protocol: TLS, Method: "GET", Path: "/"},
		"HTTP://example.com":                 {Host: "example.com", Port: 80, Protocol: HTTP, Method: "GET", Path: "/"},
		"http://example.com:8080/a/../b?c#d": {Host: "example.com", Port: 8080, Protocol: HTTP, Method: "GET", Path: "/a/../b?c"},
		"http://example.com?x":               {Host: "example.com", Port: 80, Protocol: HTTP, Method: "GET", Path: "/?x"},
		"ssh://git@github.com/x.git":         {Host: "github.com", Port: 22, Protocol: TCP},
		"https://user@Example.com/":          {Host: "example.com", Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
		"https://a:b@example.com:8443/c@d":   {Host: "example.com", Port: 8443, Protocol: TLS, Method: "GET", Path: "/c@d"},
		"https://good.test@evil.test":        {Host: "evil.test", Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
		"http://a@b@127.1":                   {Addr: a, Port: 80, Protocol: HTTP, Method: "GET", Path: "/"},
		"tcp://db.test:5432":                 {Host: "db.test", Port: 5432, Protocol: TCP},
		"udp://time.test:123":                {Host: "time.test", Port: 123, Protocol: UDP},
		"example.com":                        {Host: "example.com", Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
		"example.com:80":                     {Host: "example.com", Port: 80, Protocol: HTTP, Method: "GET", Path: "/"},
		"example.com:443":                    {Host: "example.com", Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
		"example.com:22":                     {Host: "example.com", Port: 22, Protocol: TCP},
		"http://0x7f.1/":                     {Addr: a, Port: 80, Protocol: HTTP, Method: "GET", Path: "/"},
		"[::ffff:127.0.0.1]:443":             {Addr: a, Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
		"::1":                                {Addr: addr("::1"), Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
		"git@github.com:x/y.git":             {Host: "github.com", Port: 22, Protocol: TCP},
		"github.com/x/y":                     {Host: "github.com", Port: 443, Protocol: TLS, Method: "GET", Path: "/x/y"},
		"example.com:8080/x":                 {Host: "example.com", Port: 8080, Protocol: TLS, Method: "GET", Path: "/x"},
		"https://[::1]":                      {Addr: addr("::1"), Port: 443, Protocol: TLS, Method: "GET", Path: "/"},
	} {
		if got, err := ParseURL(in); err != nil || got != want {
			t.Errorf("ParseURL(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                           "no host",
		"https://":                   "no host",
		"https:///x":                 "no host",
		"ftp://example.com":          "unknown kind",
		"tcp://example.com":          "no port",
		"udp://example.com":          "no port",
		"user@example.com":           "user information",
		"https://user@":              "no host",
		"https://example.com:0":      "1 to 65535",
		"https://example.com:":       "port is missing",
		"https://example.com:80,443": "1 to 65535",
		"/x":                         "no host",
		"user@example.com:22":        "user information",
		"*.example.com":              "everything below",
		`https://example.com\@x`:     "backslash",
	} {
		if got, err := ParseURL(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseURL(%q) = %+v, %v; want an error with %q", in, got, err, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, in := range []string{"https://example.com:8443/a", "http://[::1]/", "a:80", "ssh://a@b", "://", "tcp://x:1?#"} {
		f.Add(in)
	}
	open, err := Compile(Source{Default: "allow"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in string) {
		q, err := ParseURL(in)
		if err != nil {
			return
		}
		canonical := true
		if q.Host != "" {
			c, err := Canonical(q.Host)
			canonical = err == nil && c == q.Host
		}
		if (q.Host == "") != q.Addr.IsValid() || !canonical || q.Port == 0 || q.Protocol == Any {
			t.Errorf("ParseURL(%q) = %+v", in, q)
		}
		if d := open.Decide(q); d.Verdict != Allow {
			t.Errorf("ParseURL(%q) = %+v: %+v", in, q, d)
		}
	})
}
