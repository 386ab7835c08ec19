package policy

import (
	"net/netip"
	"strings"
	"testing"
)

// spellings of one host, each.
var spellings = map[string][]string{
	"example.com": {"example.com", "EXAMPLE.com", "Example.Com.", "example。com", "example．com", "example｡com", "ｅxample.ＣＯＭ", "exam\u00adple.com"},
	"127.0.0.1": {
		"127.0.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0X7F.1", "017700000001", "0177.0.0.1",
		"127.1", "127.0.1", "１２７.０.０.１", "①②⑦.1", "0x7f.0.0x0.01", "::ffff:127.0.0.1", "::FFFF:7f00:1", "[::ffff:127.0.0.1]",
		"0:0:0:0:0:ffff:127.0.0.1",
	},
	"169.254.169.254": {
		"169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe",
		"169.16689662", "169.254.43518", "::ffff:169.254.169.254", "[::ffff:a9fe:a9fe]", "025177524776",
	},
	"::1":                          {"::1", "[::1]", "0:0:0:0:0:0:0:1", "::0001"},
	"fd00:ec2::254":                {"fd00:ec2::254", "[FD00:EC2::254]", "fd00:0ec2:0:0:0:0:0:254"},
	"0.0.0.0":                      {"0", "0.0", "0x0", "00", "0.0.0.0"},
	"xn--bcher-kva.example":        {"bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "XN--BCHER-KVA.example."},
	"xn--fiqs8s":                   {"中国", "中国。"},
	"xn--hxajbheg2az3al.test":      {"παράδειγμα.test", "ΠΑΡΆΔΕΙΓΜΑ.test"},
	"xn--80akhbyknj4f.test":        {"испытание.test", "ИСПЫТАНИЕ.test"},
	"xn--fa-hia.test":              {"faß.test"},
	"xn--ihqwcrb4cv8a8dqg056pqjye": {"他们为什么不说中文"}, // RFC 3492, 7.1 (B)
	"xn--9ca.example":              {"\u00e9.example", "e\u0301.example", "E\u0301.example"},
	"fikk.example":                 {"ﬁ\u212ak.example"},
	"_dmarc.a-b.example":           {"_dmarc.a-b.example", "_DMARC.A-B.Example"},
	"localhost":                    {"localhost", "LocalHost."},
	"1password.com":                {"1password.com"},
	"0x7f.example":                 {"0x7f.example"},
}

func TestCanonical(t *testing.T) {
	for want, list := range spellings {
		for _, in := range list {
			if got, err := Canonical(in); err != nil || got != want {
				t.Errorf("Canonical(%q) = %q, %v; want %q", in, got, err, want)
			}
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, in := range []string{
		"", ".", "..", "example..com", ".example.com", "example.com..", "-a.example", "a-.example",
		long + ".example", strings.Repeat("abcdefg.", 32) + "example", strings.Repeat("é", 2000),
		"user@example.com", "user:pw@example.com", "example.com@127.0.0.1", "@",
		"example.com\x00.evil.test", "\x00", "example.com\n", "example.com\r\nHost: x", "a b.example", "exa\tmple.com", "\x7f.test",
		"example.com:443", "127.0.0.1:80", "[::1]:80", "[::1", "::1]", "[example.com]", "[127.0.0.1]", "[]",
		"fe80::1%eth0", "[fe80::1%25eth0]", "%65xample.com", "example.com/path", "example.com?x", "example.com#x", `example.com\x`,
		"*.example.com", "*", "ex*mple.com",
		"256.1.1.1", "1.2.3.4.5", "1.2.3.256", "4294967296", "0x100000000", "09.0.0.1", "1.2.3.08", "127.0.0.0x", "0x",
		"foo.1", "foo.0x1", "example.123", "1..2", "127.0.65536.1",
		"\u200d.example", "℀.example", "a＠example.com", "example.com／x", "：：1", "\u0301.example", "\ufffd.example", "א1b.example",
		"\xff.example", "é-.example", "-é.example", "ab--é.example", ":", ":::", "1:2:3:4:5:6:7:8:9", "::ffff:256.0.0.1",
	} {
		if got, err := Canonical(in); err == nil {
			t.Errorf("Canonical(%q) = %q, want an error", in, got)
		} else if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("Canonical(%q): the error has control characters: %q", in, err)
		}
	}
}

func TestNewQuery(t *testing.T) {
	q, err := NewQuery("0x7f.1", 80)
	if err != nil || q.Host != "" || q.Addr != netip.MustParseAddr("127.0.0.1") || q.Port != 80 {
		t.Errorf("got %+v, %v", q, err)
	}
	q, err = NewQuery("Example.COM.", 443)
	if err != nil || q.Host != "example.com" || q.Addr.IsValid() {
		t.Errorf("got %+v, %v", q, err)
	}
	if _, err := NewQuery("user@example.com", 443); err == nil {
		t.Error("user information was accepted")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, list := range spellings {
		for _, in := range list {
			f.Add(in)
		}
	}
	for _, in := range []string{"a@b", "a\x00b", "fe80::1%1", "é", "xn--", "0x.0", "1.2.3.4.5", "-", "*.x"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := Canonical(in)
		if err != nil {
			return
		}
		if again, err := Canonical(got); err != nil || again != got {
			t.Errorf("Canonical(%q) = %q, but of that it is %q, %v", in, got, again, err)
		}
		for _, other := range []string{strings.ToUpper(got), got + "."} {
			if strings.Contains(got, ":") && other != strings.ToUpper(got) {
				continue // IPv6 has no trailing dot
			}
			if c, err := Canonical(other); err != nil || c != got {
				t.Errorf("Canonical(%q) = %q, %v; want %q", other, c, err, got)
			}
		}
		for i := range len(got) {
			if c := got[i]; c != '.' && c != ':' && !nameByte(c) {
				t.Errorf("Canonical(%q) = %q has %q", in, got, c)
			}
		}
		if addr, err := netip.ParseAddr(got); err == nil && (addr.String() != got || addr.Is4In6()) {
			t.Errorf("Canonical(%q) = %q, an address in another spelling", in, got)
		}
		// The quick way and the thorough one agree.
		if slow, err := canonical(in); err != nil || slow != got {
			t.Errorf("Canonical(%q) = %q, thoroughly %q, %v", in, got, slow, err)
		}
	})
}
