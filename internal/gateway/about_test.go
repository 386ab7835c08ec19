package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
)

func TestAbout(t *testing.T) {
	r := newRig(t, rules(t, "allow good.com:443", "ask maybe.com", "deny never.com"))
	c := r.connect("denied.com", 80)
	io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", "denied.com"))
	outcome(c)
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return r.connectTo(netip.AddrPortFrom(link.About4, 80)), nil
	}}}
	ask := func(method, path, accept string) (int, string) {
		t.Helper()
		q, _ := http.NewRequest(method, "http://coffer.internal"+path, nil)
		q.Header.Set("Accept", accept)
		resp, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	status, text := ask("GET", "/", "*/*")
	for _, want := range []string{"tester", "good.com:443", "denied.com:80", "coffer policy allow denied.com:80", "/request?host=HOST"} {
		if !strings.Contains(text, want) {
			t.Errorf("%d: no %q in %s", status, want, text)
		}
	}
	var all struct {
		Sandbox map[string]string
		Policy  struct {
			Default string
			Rules   []struct{ Verdict, Rule string }
		}
		Denials []Denial
		Ask     string
	}
	_, text = ask("GET", "/", "application/json")
	if err := json.Unmarshal([]byte(text), &all); err != nil || all.Sandbox["id"] != "t1" || all.Policy.Default != "deny" ||
		len(all.Policy.Rules) != 3 || len(all.Denials) != 1 || all.Denials[0].Host != "denied.com" {
		t.Errorf("%v: %s", err, text)
	}
	if _, text := ask("GET", "/policy", ""); !strings.Contains(text, "good.com:443") || strings.Contains(text, "origin") {
		t.Error(text)
	}
	if _, text := ask("GET", "/denials", ""); !strings.Contains(text, "denied.com") {
		t.Error(text)
	}
	for _, test := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"POST", "/request?host=good.com&port=443", 200, `"status":"allowed"`},
		{"POST", "/request?host=good.com&port=80", 403, `"allow":"coffer policy allow good.com:80"`},
		{"POST", "/request?host=other.com", 403, `"allow":"coffer policy allow other.com:443"`},
		{"POST", "/request?host=other.com&port=53&protocol=udp", 403, `coffer policy allow other.com:53 --protocol udp`},
		{"POST", "/request?host=never.com", 403, `"status":"denied"`},
		{"POST", "/request?host=10.1.1.1&port=80", 403, `"allow":"coffer policy allow 10.1.1.1:80"`},
		{"POST", "/request?host=maybe.com&port=443", 202, `"status":"asked"`},
		{"POST", "/request?host=&port=443", 400, `host`},
		{"POST", "/request?host=a..b&port=443", 400, `host`},
		{"POST", "/request?host=a.com&port=0", 400, `port`},
		{"POST", "/request?host=a.com&port=x", 400, `port`},
		{"GET", "/request?host=a.com", 405, ""},
		{"GET", "/other", 404, ""},
	} {
		if status, text := ask(test.method, test.path, ""); status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s %s: %d %s", test.method, test.path, status, text)
		}
	}
	// The question is there; a yes holds for the next connection, and only for that.
	q := <-r.asked
	if q.Host != "maybe.com" || q.Port != 443 {
		t.Errorf("%+v", q)
	}
	r.serve("maybe.com", 443, func(c *net.TCPConn) { io.WriteString(c, "hi") })
	if err := r.g.Answer(q.ID, true); err != nil {
		t.Fatal(err)
	}
	if said, _ := outcome(r.connect("maybe.com", 443)); said != "hi" || len(r.asked) != 0 {
		t.Errorf("%q, %d questions", said, len(r.asked))
	}
	c = r.connect("maybe.com", 443)
	if q := <-r.asked; q.Host != "maybe.com" {
		t.Errorf("%+v", q)
	}
	c.Close()
}
