package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/net/dns/dnsmessage"
)

const refusal = "no rule allows it"

// resolver allows example.com, what is below it and a few odd names, and looks up nothing.
func resolver() *Resolver {
	return &Resolver{
		Table: NewTable(0),
		Allow: func(name string) (bool, string) {
			return name == "example.com" || strings.HasSuffix(name, ".example.com") ||
				name == "db.1st" || strings.HasPrefix(name, "127."), refusal
		},
	}
}

// ask builds a query, with an OPT record if udpSize is not 0.
func ask(t testing.TB, name string, typ dnsmessage.Type, udpSize int) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}},
	}
	if udpSize != 0 {
		var h dnsmessage.ResourceHeader
		h.SetEDNS0(udpSize, 0, true)
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func answer(t testing.TB, r *Resolver, query []byte, udp bool) dnsmessage.Message {
	t.Helper()
	b := r.Answer(t.Context(), query, udp)
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("answer %x: %v", b, err)
	}
	if !m.Response || m.ID != 4711 {
		t.Fatalf("answer has header %+v", m.Header)
	}
	return m
}

// values shows the records of an answer.
func values(m dnsmessage.Message) string {
	var s []string
	for _, r := range m.Answers {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			s = append(s, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			s = append(s, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.PTRResource:
			s = append(s, b.PTR.String())
		case *dnsmessage.TXTResource:
			s = append(s, strings.Join(b.TXT, ""))
		case *dnsmessage.MXResource:
			s = append(s, b.MX.String())
		case *dnsmessage.UnknownResource:
			s = append(s, r.Header.Type.String()+" "+string(b.Data))
		default:
			s = append(s, r.Header.Type.String())
		}
	}
	return strings.Join(s, ",")
}

// extended returns the code and text of the extended DNS error.
func extended(m dnsmessage.Message) (int, string) {
	for _, r := range m.Additionals {
		if opt, ok := r.Body.(*dnsmessage.OPTResource); ok {
			for _, o := range opt.Options {
				if o.Code == 15 {
					return int(o.Data[0])<<8 | int(o.Data[1]), string(o.Data[2:])
				}
			}
		}
	}
	return 0, ""
}

func TestAnswers(t *testing.T) {
	r := resolver()
	v4, v6 := r.Table.Addresses("example.com")
	deep4, _ := r.Table.Addresses("a.b.example.com")
	const (
		ok      = dnsmessage.RCodeSuccess
		unknown = dnsmessage.RCodeNameError
	)
	tests := []struct {
		name  string
		typ   dnsmessage.Type
		rcode dnsmessage.RCode
		want  string
	}{
		{"example.com.", dnsmessage.TypeA, ok, v4.String()},
		{"example.com.", dnsmessage.TypeAAAA, ok, v6.String()},
		{"EXAMPLE.com.", dnsmessage.TypeA, ok, v4.String()},
		{"a.b.example.com.", dnsmessage.TypeA, ok, deep4.String()},
		{"example.com.", dnsmessage.TypeHTTPS, ok, ""},
		{"example.com.", dnsmessage.TypeSVCB, ok, ""},
		{"example.com.", dnsmessage.TypeCNAME, ok, ""},
		{"example.com.", dnsmessage.TypeTXT, ok, ""}, // no Lookup
		{"example.com.", dnsmessage.TypeALL, ok, "TypeHINFO \x07RFC8482\x00"},
		{"example.com.", dnsmessage.TypeAXFR, dnsmessage.RCodeNotImplemented, ""},

		{"other.org.", dnsmessage.TypeA, unknown, ""},
		{"other.org.", dnsmessage.TypeTXT, unknown, ""},
		{"other.org.", dnsmessage.TypeHTTPS, unknown, ""},
		{"secret-in-a-label.other.org.", dnsmessage.TypeAAAA, unknown, ""},
		{"example.com.other.org.", dnsmessage.TypeA, unknown, ""},
		{"notexample.com.", dnsmessage.TypeA, unknown, ""},
		// Allowed, but nothing that can be a host.
		{"a\x00.example.com.", dnsmessage.TypeA, unknown, ""},
		{"user@example.com.example.com.", dnsmessage.TypeA, unknown, ""},
		{"b\xc3\xbccher.example.com.", dnsmessage.TypeA, unknown, ""},
		{"127.0.0.1.", dnsmessage.TypeA, unknown, ""},
		{"127.0x1.", dnsmessage.TypeA, unknown, ""},
		{"db.1st.", dnsmessage.TypeMX, ok, ""},
		{"xn--bcher-kva.example.com.", dnsmessage.TypeTXT, ok, ""},

		{"localhost.", dnsmessage.TypeA, ok, "127.0.0.1"},
		{"localhost.", dnsmessage.TypeAAAA, ok, "::1"},
		{"app.localhost.", dnsmessage.TypeA, ok, "127.0.0.1"},
		{"host.coffer.internal.", dnsmessage.TypeA, ok, link.Host4.String()},
		{"host.coffer.internal.", dnsmessage.TypeAAAA, ok, link.Host6.String()},
		{"Coffer.Internal.", dnsmessage.TypeA, ok, link.About4.String()},
		{"coffer.internal.", dnsmessage.TypeMX, ok, ""},
		{"else.coffer.internal.", dnsmessage.TypeA, unknown, ""},
		{"use-application-dns.net.", dnsmessage.TypeA, unknown, ""},
		{".", dnsmessage.TypeNS, ok, ""},

		{reversed(v4), dnsmessage.TypePTR, ok, "example.com."},
		{reversed(v6), dnsmessage.TypePTR, ok, "example.com."},
		{strings.ToUpper(reversed(v6)), dnsmessage.TypePTR, ok, "example.com."},
		{reversed(v4), dnsmessage.TypeA, ok, ""},
		{reversed(link.Host4), dnsmessage.TypePTR, ok, "host.coffer.internal."},
		{reversed(link.About6), dnsmessage.TypePTR, ok, "coffer.internal."},
		{"1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, ok, "localhost."},
		{"8.8.8.8.in-addr.arpa.", dnsmessage.TypePTR, unknown, ""},
		{"1.1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, unknown, ""},
		{"01.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, unknown, ""},
		{"0.0.127.in-addr.arpa.", dnsmessage.TypePTR, unknown, ""},
		{"x.ip6.arpa.", dnsmessage.TypePTR, unknown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name+tt.typ.String(), func(t *testing.T) {
			q := ask(t, tt.name, tt.typ, 0)
			m := answer(t, r, q, true)
			if m.RCode != tt.rcode || values(m) != tt.want {
				t.Errorf("got %v %q, want %v %q", m.RCode, values(m), tt.rcode, tt.want)
			}
			if len(m.Questions) != 1 || m.Questions[0].Name.String() != tt.name {
				t.Errorf("question came back as %v", m.Questions)
			}
			for _, a := range m.Answers {
				if a.Header.TTL != ttl || a.Header.Name.String() != tt.name {
					t.Errorf("record %v", a.Header.GoString())
				}
			}
			if len(m.Additionals) != 0 {
				t.Error("an OPT record for a program that sent none")
			}
			if len(m.Authorities) != 0 {
				t.Error("an authority, so that the answer could be remembered")
			}
		})
	}
}

func reversed(a netip.Addr) string {
	const digits = "0123456789abcdef"
	var labels []string
	for _, b := range a.AsSlice() {
		if a.Is4() {
			labels = append(labels, netip.AddrFrom4([4]byte{0, 0, 0, b}).String()[6:])
		} else {
			labels = append(labels, digits[b>>4:b>>4+1], digits[b&15:b&15+1])
		}
	}
	slices.Reverse(labels)
	if a.Is4() {
		return strings.Join(labels, ".") + ".in-addr.arpa."
	}
	return strings.Join(labels, ".") + ".ip6.arpa."
}

func TestRefusalSaysWhy(t *testing.T) {
	r := resolver()
	m := answer(t, r, ask(t, "other.org.", dnsmessage.TypeA, 4096), true)
	if code, why := extended(m); code != 15 || why != refusal {
		t.Errorf("extended error %d %q", code, why)
	}
	m = answer(t, r, ask(t, "example.com.", dnsmessage.TypeA, 4096), true)
	if code, why := extended(m); code != 0 {
		t.Errorf("an allowed name has extended error %d %q", code, why)
	}
	r.Allow = func(string) (bool, string) { return false, "red \x1b[31m\xff" + strings.Repeat("ü", 200) }
	long := strings.Repeat(strings.Repeat("x", 62)+".", 4)
	b := r.Answer(t.Context(), ask(t, long, dnsmessage.TypeA, 1), true)
	if len(b) > minUDP {
		t.Errorf("%d bytes for a program that takes %d", len(b), minUDP)
	}
	_, why := extended(answer(t, r, ask(t, long, dnsmessage.TypeA, 1), true))
	if strings.Contains(why, "\x1b") || !utf8.ValidString(why) || len(why) > maxReason || !strings.HasPrefix(why, "red  [31m") {
		t.Errorf("reason %q", why)
	}
}

// Nothing about a refused name leaves, and only names that may be asked for get an address.
func TestRefusedNamesGoNowhere(t *testing.T) {
	r := resolver()
	var looked []string
	r.Lookup = func(_ context.Context, name string, _ dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
		looked = append(looked, name)
		return nil, nil
	}
	for typ := range dnsmessage.Type(300) {
		for _, name := range []string{"key.other.org.", "a\x00.example.com.", "4.3.2.1.in-addr.arpa.", "x.coffer.internal."} {
			r.Answer(t.Context(), ask(t, name, typ, 0), false)
		}
	}
	if len(looked) != 0 || len(r.Table.byName) != 0 {
		t.Errorf("looked up %q, table has %d names", looked, len(r.Table.byName))
	}
	r.Answer(t.Context(), ask(t, "MX.example.com.", dnsmessage.TypeMX, 0), false)
	if len(looked) != 1 || looked[0] != "mx.example.com" {
		t.Errorf("looked up %q, want mx.example.com", looked)
	}
}

func TestLookup(t *testing.T) {
	r := resolver()
	var bodies []dnsmessage.ResourceBody
	var failure error
	r.Lookup = func(ctx context.Context, _ string, _ dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		return bodies, failure
	}
	name := func(s string) dnsmessage.Name { return dnsmessage.MustNewName(s) }

	bodies = []dnsmessage.ResourceBody{
		&dnsmessage.TXTResource{TXT: []string{"not asked for"}},
		&dnsmessage.MXResource{Pref: 1, MX: name("a..bad.")},
		&dnsmessage.MXResource{Pref: 1, MX: name("nodot")},
		&dnsmessage.MXResource{Pref: 1, MX: name("mx.example.com.")},
		nil,
	}
	if got := values(answer(t, r, ask(t, "example.com.", dnsmessage.TypeMX, 0), true)); got != "mx.example.com." {
		t.Errorf("MX: %q", got)
	}

	bodies = nil
	for range 3 * maxRecords {
		bodies = append(bodies, &dnsmessage.TXTResource{TXT: []string{strings.Repeat("t", 200)}})
	}
	txt := ask(t, "example.com.", dnsmessage.TypeTXT, 1000)
	b := r.Answer(t.Context(), txt, true)
	if m := answer(t, r, txt, true); !m.Truncated || len(m.Answers) != 0 || len(b) > 1000 {
		t.Errorf("over UDP: truncated %v, %d records, %d bytes", m.Truncated, len(m.Answers), len(b))
	}
	if m := answer(t, r, txt, false); m.Truncated || len(m.Answers) != maxRecords {
		t.Errorf("over TCP: truncated %v, %d records", m.Truncated, len(m.Answers))
	}
	for i := range bodies {
		bodies[i] = &dnsmessage.TXTResource{TXT: slices.Repeat([]string{strings.Repeat("t", 255)}, 4)}
	}
	if b := r.Answer(t.Context(), txt, false); len(b) > maxTCP || len(b) < maxTCP/4 {
		t.Errorf("over TCP: %d bytes", len(b))
	}

	bodies, failure = nil, errors.New("dial 10.1.2.3: secret of the network outside")
	m := answer(t, r, txt, true)
	if _, why := extended(m); m.RCode != dnsmessage.RCodeServerFailure || strings.Contains(why, "10.1.2.3") {
		t.Errorf("failure: %v %q", m.RCode, why)
	}
}

func TestOddQueries(t *testing.T) {
	r := resolver()
	plain := ask(t, "example.com.", dnsmessage.TypeA, 0)
	change := func(f func(b []byte) []byte) []byte { return f(slices.Clone(plain)) }
	opt := func(version byte) []byte { return []byte{0, 0, 41, 4, 0, 0, version, 0, 0, 0, 0} }
	tests := []struct {
		name  string
		query []byte
		rcode int // -1: no answer
	}{
		{"as it should be", plain, 0},
		{"nothing", nil, -1},
		{"eleven bytes", plain[:11], -1},
		{"an answer", change(func(b []byte) []byte { b[2] |= 0x80; return b }), -1},
		{"no question", change(func(b []byte) []byte { b[5] = 0; return b[:12] }), 1},
		{"two questions", change(func(b []byte) []byte { b[5] = 2; return append(b, b[12:]...) }), 1},
		{"cut in the name", plain[:16], 1},
		{"a dot in a label", change(func(b []byte) []byte { b[15] = '.'; return b }), 1},
		{"name that points to itself", append(slices.Clone(plain[:12]), 0xc0, 12, 0, 1, 0, 1), 1},
		{"more records announced than there", change(func(b []byte) []byte { b[7] = 9; return b }), 1},
		{"opcode UPDATE", change(func(b []byte) []byte { b[2] |= 5 << 3; return b }), 4},
		{"class CHAOS", change(func(b []byte) []byte { b[len(b)-1] = 3; return b }), 5},
		{"two OPT records", change(func(b []byte) []byte {
			b[11] = 2
			return append(append(b, opt(0)...), opt(0)...)
		}), 1},
		{"EDNS version 1", change(func(b []byte) []byte { b[11] = 1; return append(b, opt(1)...) }), 16},
		{"EDNS version 0", change(func(b []byte) []byte { b[11] = 1; return append(b, opt(0)...) }), 0},
		{"bytes after the end", append(slices.Clone(plain), 1, 2, 3), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.rcode < 0 {
				if b := r.Answer(t.Context(), tt.query, true); b != nil {
					t.Errorf("answered %x", b)
				}
				return
			}
			m := answer(t, r, tt.query, true)
			rcode := m.RCode
			for _, a := range m.Additionals {
				rcode = a.Header.ExtendedRCode(rcode)
			}
			if int(rcode) != tt.rcode || (len(m.Answers) == 1) != (tt.rcode == 0) {
				t.Errorf("rcode %d with %d records, want %d", rcode, len(m.Answers), tt.rcode)
			}
		})
	}
}

// Go's own resolver, over a socket: what a program inside sees.
func TestRealResolver(t *testing.T) {
	r := resolver()
	r.Lookup = func(context.Context, string, dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
		long := &dnsmessage.TXTResource{TXT: slices.Repeat([]string{strings.Repeat("t", 250)}, 20)}
		return []dnsmessage.ResourceBody{long}, nil
	}
	server := serve(t, r)
	client := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	got, err := client.LookupNetIP(t.Context(), "ip", "www.example.com.")
	v4, v6 := r.Table.Addresses("www.example.com")
	slices.SortFunc(got, netip.Addr.Compare)
	if err != nil || !slices.Equal(got, []netip.Addr{v4, v6}) {
		t.Errorf("www.example.com is %v, %v, want %v %v", got, err, v4, v6)
	}
	if back, err := client.LookupAddr(t.Context(), v6.String()); err != nil || back[0] != "www.example.com." {
		t.Errorf("%s is %v, %v", v6, back, err)
	}
	if txt, err := client.LookupTXT(t.Context(), "example.com."); err != nil || len(strings.Join(txt, "")) != 5000 {
		t.Errorf("a TXT record that needs TCP: %d, %v", len(strings.Join(txt, "")), err)
	}
	_, err = client.LookupNetIP(t.Context(), "ip", "other.org.")
	var dns *net.DNSError
	if !errors.As(err, &dns) || !dns.IsNotFound || dns.IsTemporary || dns.IsTimeout {
		t.Errorf("other.org: %#v", err)
	}
}

// serve answers on a UDP and a TCP socket of the loopback interface with the same port.
func serve(t *testing.T, r *Resolver) string {
	t.Helper()
	var l net.Listener
	var pc net.PacketConn
	for pc == nil {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tcp.Close() })
		l = tcp
		// Somebody may have it for UDP. Another is chosen while the first is held.
		if pc, err = net.ListenPacket("udp", l.Addr().String()); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			pc.WriteTo(r.Answer(context.Background(), b[:n], true), from)
		}
	}()
	go func() {
		b := make([]byte, 2048)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if n, err := c.Read(b); err == nil && n > 2 {
				a := r.Answer(context.Background(), b[2:n], false)
				c.Write(append([]byte{byte(len(a) >> 8), byte(len(a))}, a...))
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func BenchmarkAnswer(b *testing.B) {
	r := resolver()
	for name, q := range map[string][]byte{
		"allowed": ask(b, "www.example.com.", dnsmessage.TypeA, 1232),
		"refused": ask(b, "www.other.org.", dnsmessage.TypeA, 1232),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Answer(context.Background(), q, true)
			}
		})
	}
}
