package policy

import "testing"

// What a rule adds to a set that has others already.
func TestBeyond(t *testing.T) {
	off := false
	set := compile(t, rules(
		RuleSource{Allow: []string{"example.com:443", "*.example.org", "10.0.0.0/8:5432", "@npm"}},
		RuleSource{Allow: []string{"paths.example"}, Protocol: "http", Paths: []string{"/a"}},
		RuleSource{Allow: []string{"bound.example"}, MaxUpload: "1MB"},
		RuleSource{Ask: []string{"asked.example"}},
		RuleSource{Allow: []string{"udp.example"}, Protocol: "udp"},
	))
	open := compile(t, Source{Default: "allow"})
	for _, c := range []struct {
		set    *Set
		target string
		proto  string
		beyond bool
	}{
		{set, "example.com:443", "", false},
		{set, "EXAMPLE.com:443", "tls", false},
		{set, "example.com", "", true},
		{set, "example.com:80", "", true},
		{set, "example.com:443,444", "", true},
		{set, "www.example.com:443", "", true},
		{set, "a.b.example.org:1-9", "", false},
		{set, "*.b.example.org", "", false},
		{set, "*.example.org", "", false},
		{set, "example.org", "", true},
		{set, "*.org", "", true},
		{set, "notexample.org", "", true},
		{set, "10.1.2.3:5432", "", false},
		{set, "10.0.0.0/16:5432", "", false},
		{set, "10.0.0.0/7:5432", "", true},
		{set, "10.1.2.3", "", true},
		{set, "@npm", "", false},
		{set, "@pypi", "", true},
		{set, "paths.example", "", true},
		{set, "paths.example", "http", true},
		{set, "bound.example", "", true},
		{set, "asked.example", "", true},
		{set, "udp.example", "", true},
		{set, "udp.example", "udp", false},
		{set, "example.com:443", "udp", true},
		{set, "*", "", true},
		{open, "*", "", false},
		{open, "anything.example", "", false},
		{open, "anything.example", "udp", true},
		{open, "10.0.0.1", "", true},
		{open, "8.8.8.8", "", true},
	} {
		got := c.set.Beyond(RuleSource{Allow: []string{c.target}, Protocol: c.proto})
		if (len(got) > 0) != c.beyond {
			t.Errorf("%s %s: beyond %v, want %v", c.target, c.proto, got, c.beyond)
		}
	}
	if got := set.Beyond(RuleSource{Allow: []string{"*"}, Enabled: &off}); got != nil {
		t.Errorf("a rule that is switched off: %v", got)
	}
}
