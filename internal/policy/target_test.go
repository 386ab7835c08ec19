package policy

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]string{
		"example.com":             "example.com",
		"Example.COM.:443":        "example.com:443",
		"example.com:443,80":      "example.com:80,443",
		"example.com:80,81,82":    "example.com:80-82",
		"example.com:1-9,5-20,7":  "example.com:1-20",
		"*.Example.com":           "*.example.com",
		"*.example.com:8000-8999": "*.example.com:8000-8999",
		"*":                       "*",
		"*:443":                   "*:443",
		"10.0.0.0/8":              "10.0.0.0/8",
		"10.0.0.0/8:22":           "10.0.0.0/8:22",
		"192.0.2.7:22":            "192.0.2.7:22",
		"192.0.2.7/32":            "192.0.2.7",
		"2001:db8::/32":           "2001:db8::/32",
		"[2001:db8::/32]:443":     "[2001:db8::/32]:443",
		"[2001:DB8::7]:443":       "[2001:db8::7]:443",
		"[::1]":                   "::1",
		"::1":                     "::1",
		"::ffff:10.0.0.0/104":     "10.0.0.0/8",
		"::ffff:10.0.0.7":         "10.0.0.7",
		"0x7f.1:80":               "127.0.0.1:80",
		"2130706433":              "127.0.0.1",
		"0.0.0.0/0":               "0.0.0.0/0",
		"::/0":                    "::/0",
		"bücher.example:443":      "xn--bcher-kva.example:443",
		"*.bücher.example":        "*.xn--bcher-kva.example",
		"@npm":                    "@npm",
		"localhost:1-65535":       "localhost:1-65535",
	} {
		got, err := ParseTarget(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseTarget(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

// What is wrong is said in words that help.
func TestParseTargetRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "empty",
		" example.com":          "character ' '",
		"https://example.com/x": `"example.com"`,
		"example.com/x":         "paths",
		"example.com:":          "port is missing",
		"example.com:0":         "1 to 65535",
		"example.com:65536":     "1 to 65535",
		"example.com:http":      "1 to 65535",
		"example.com:+80":       "1 to 65535",
		"example.com:80-":       "port is missing",
		"example.com:90-80":     "ends before",
		"example.com:80,,90":    "port is missing",
		"example.com:80:90":     "IPv6",
		"a.*.example.com":       "only stand for everything below",
		"ex*.example.com":       "only stand for everything below",
		"**.example.com":        "only stand for everything below",
		"*.":                    "empty",
		"*.*.example.com":       "only stand for everything below",
		"*.10.0.0.1":            "range",
		"10.0.0.5/8":            "10.0.0.0/8",
		"10.0.0.0/33":           "range of addresses",
		"::ffff:0:0/90":         "middle",
		"[::1":                  "never closed",
		"[::1]443":              "only :ports",
		"[2001:db8::]/32":       "belongs inside",
		"[example.com]:443":     "something else",
		"fe80::1%eth0":          "zone",
		"user@example.com":      "user information",
		"@nonsense":             "git-hosts",
		"@":                     "no group",
		"@npm:443":              "no group",
		"example.com\x00":       "character",
	} {
		if got, err := ParseTarget(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseTarget(%q) = %q, %v; want an error with %q", in, got, err, want)
		}
	}
}

func TestPorts(t *testing.T) {
	p, err := parsePorts("80,443,8000-8010,8011")
	if err != nil {
		t.Fatal(err)
	}
	for r, want := range map[portRange]bool{
		{80, 80}: true, {79, 80}: false, {80, 81}: false, {443, 443}: true, {1, 1}: false, {65535, 65535}: false,
		{8000, 8011}: true, {8005, 8007}: true, {8000, 8012}: false, {80, 443}: false,
	} {
		if got := p.covers(r); got != want {
			t.Errorf("%v covers %v: %v", p, r, got)
		}
	}
	if ports(nil).covers(portRange{1, 1}) {
		t.Error("nothing covers something")
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, in := range []string{
		"example.com:80,443", "*.example.com", "*:1-2", "10.0.0.0/8:5", "[::1]:3", "::/0", "@npm", "a:b:c", "[", "*.", "/", "::ffff:1.2.3.4/128", "1:65535-1",
	} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		target, err := ParseTarget(in)
		if err != nil {
			return
		}
		text := target.String()
		again, err := ParseTarget(text)
		if err != nil || again.String() != text {
			t.Errorf("%q reads as %q, which reads as %q, %v", in, text, again, err)
		}
		if _, err := Compile(Source{Rules: []RuleSource{{Allow: []string{in}}}}); err != nil {
			t.Errorf("%q is a target but not in a rule: %v", in, err)
		}
	})
}
