package dns

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"example.com.", "A.eXample.com.", "other.org.", "localhost.", ".",
		"1.0.18.198.in-addr.arpa.", "host.coffer.internal.", "a\x00b.example.com.", strings.Repeat("abcdefg.", 30)} {
		for _, typ := range []dnsmessage.Type{1, 28, 12, 15, 16, 65, 252, 255} {
			f.Add(ask(f, name, typ, 0), true)
			f.Add(ask(f, name, typ, 4096), false)
		}
	}
	f.Add([]byte("\x12\x67\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"), true)
	f.Add(make([]byte, 12), true)
	f.Fuzz(func(t *testing.T, query []byte, udp bool) {
		r := resolver()
		allow := r.Allow
		allowed := map[string]bool{}
		r.Allow = func(name string) (bool, string) {
			if strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || strings.HasSuffix(name, ".") {
				t.Errorf("asked about %q", name)
			}
			ok, why := allow(name)
			allowed[name] = ok
			return ok, why
		}
		r.Lookup = func(_ context.Context, name string, typ dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
			if !allowed[name] {
				t.Errorf("looked up %q", name)
			}
			return []dnsmessage.ResourceBody{
				&dnsmessage.TXTResource{TXT: []string{strings.Repeat("t", 255), strings.Repeat("u", 255)}},
				&dnsmessage.TXTResource{TXT: []string{name}},
				&dnsmessage.MXResource{MX: dnsmessage.MustNewName("mx.example.com.")},
			}, nil
		}
		b := r.Answer(t.Context(), query, udp)
		if len(query) < 12 || query[2]&0x80 != 0 {
			if b != nil {
				t.Fatalf("answered what is no query: %x", b)
			}
			return
		}
		if len(b) < 12 || b[0] != query[0] || b[1] != query[1] || b[2]&0x80 == 0 {
			t.Fatalf("answer %x to query %x", b, query)
		}
		if udp && len(b) > maxUDP || len(b) > maxTCP {
			t.Fatalf("%d bytes", len(b))
		}
		var m dnsmessage.Message
		if err := m.Unpack(b); err != nil {
			t.Fatalf("answer %x: %v", b, err)
		}
		if udp && len(m.Additionals) == 0 && len(b) > minUDP {
			t.Fatalf("%d bytes to a program that has not said that it takes more than %d", len(b), minUDP)
		}
		for _, ok := range allowed {
			if !ok && (len(m.Answers) != 0 || m.RCode != dnsmessage.RCodeNameError) {
				t.Fatalf("a refused name got %v", m.Answers)
			}
		}
		for _, a := range m.Answers {
			if a.Header.Name != m.Questions[0].Name {
				t.Fatalf("record of %s for a question about %s", a.Header.Name, m.Questions[0].Name)
			}
		}
	})
}
