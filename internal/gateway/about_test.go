package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// asker is a program that talks to coffer.internal.
func (r *rig) asker() func(method, path, accept string) (int, string) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return r.connectTo(netip.AddrPortFrom(link.About4, 80)), nil
	}}}
	return func(method, path, accept string) (int, string) {
		r.t.Helper()
		q, _ := http.NewRequest(method, "http://coffer.internal"+path, nil)
		q.Header.Set("Accept", accept)
		resp, err := client.Do(q)
		if err != nil {
			r.t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
}

// TestRequestAccess: what the default denies can be asked for, within bounds, and is
// open when the user has made a rule of it.
func TestRequestAccess(t *testing.T) {
	r := newRig(t, rules(t, "allow good.com:443", "deny never.com"))
	ask := r.asker()
	for range 2 { // the second time it is the same question
		if status, text := ask("POST", "/request?host=Other.com", ""); status != 202 || !strings.Contains(text, `"status":"asked"`) || !strings.Contains(text, fmt.Sprintf(`"id":%d`, r.g.Pending()[0].ID)) {
			t.Fatalf("%d %s", status, text)
		}
	}
	q := <-r.asked
	if q.Host != "other.com" || q.Port != 443 || !q.Filed || q.Flows != 0 || len(r.asked) != 0 || len(r.g.Pending()) != 1 {
		t.Errorf("%+v, %d more", q, len(r.asked))
	}
	r.g.SetPolicy(rules(t, "allow good.com:443", "deny never.com", "allow third.com"))
	if len(r.g.Pending()) != 1 {
		t.Error("the question is gone with rules about others")
	}
	r.g.SetPolicy(rules(t, "allow good.com:443", "allow other.com:443"))
	if len(r.g.Pending()) != 0 {
		t.Error("the question is still there")
	}
	if status, text := ask("POST", "/request?host=other.com", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("POST", "/request?host=other.com&port=53&protocol=udp", ""); status != 202 || (<-r.asked).Protocol != policy.UDP {
		t.Errorf("%d %s", status, text)
	}
	all := r.g.Pending()
	if err := r.g.Answer(all[len(all)-1].ID, false); err != nil {
		t.Fatal(err)
	}
	if status, text := ask("POST", "/request?host=other.com&port=53&protocol=udp", ""); status != 403 || !strings.Contains(text, "said no") {
		t.Errorf("%d %s", status, text)
	}
	most := defaults().filed
	for n := range most + 3 {
		status, text := ask("POST", fmt.Sprintf("/request?host=n%d.com", n), "")
		if want := n < most; (status == 202) != want {
			t.Errorf("%d: %d %s", n, status, text)
		}
	}
	if n := len(r.g.Pending()); n != most {
		t.Errorf("%d questions", n)
	}
}

func TestAbout(t *testing.T) {
	r := newRig(t, rules(t, "allow good.com:443", "ask maybe.com", "deny never.com"), silent)
	c := r.connect("denied.com", 80)
	io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", "denied.com"))
	outcome(c)
	ask := r.asker()
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
		{"POST", "/request?host=never.com", 403, `"status":"denied"`},
		{"POST", "/request?host=10.1.1.1&port=80", 403, `"allow":"coffer policy allow 10.1.1.1:80"`},
		{"POST", "/request?host=169.254.169.254&port=80", 403, `is a cloud metadata address`},
		{"POST", "/request?host=host.coffer.internal&port=5432", 403, `--host-port 5432`},
		{"POST", "/request?host=coffer.internal&port=80", 200, `"status":"allowed"`},
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
