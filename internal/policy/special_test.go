package policy

import (
	"net/netip"
	"slices"
	"testing"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestClassify(t *testing.T) {
	for what, list := range map[string][]string{
		"loopback":          {"127.0.0.1", "127.255.255.254", "::1", "64:ff9b::7f00:1", "2002:7f00:1::1", "::127.0.0.1"},
		"private":           {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1", "fec0::1", "64:ff9b::10.0.0.1", "2002:a00:1::", "2002:c0a8:101::5", "2001:0:1234::f5ff:fffe", "2a00::5efe:10.0.0.1", "2a00::200:5efe:192.168.0.1", "::ffff:0:10.1.2.3", "::10.0.0.1", "64:ff9b:1::10.0.0.1"},
		"link-local":        {"169.254.1.1", "fe80::1", "febf::1", "64:ff9b::169.254.1.1"},
		"carrier-grade NAT": {"100.64.0.1", "100.127.255.255"},
		"unspecified":       {"0.0.0.0", "0.1.2.3", "::"},
		"multicast":         {"224.0.0.1", "239.255.255.255", "ff02::1"},
		"benchmarking":      {"198.18.0.1", "198.19.255.255"},
		"documentation":     {"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"},
		"reserved":          {"192.0.0.8", "192.88.99.1", "240.0.0.1", "255.255.255.255", "100::1", "2001:2::1", "2001:20::1", "1000::1", "4000::1", "5f00::1", "9999::1", "e000::1"},
		"IPv4 in IPv6":      {"::8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b:1::808:808", "2001::f7f7:f7f7", "2002:808:808::1"},
		"cloud metadata":    {"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "::169.254.169.254"},
		"":                  {"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "169.253.255.255", "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00::1", "2001:4860:4860::8888", "2001:200::1", "2003::1", "64:ff9b::808:808", "3ffe::1"},
	} {
		for _, a := range list {
			if got, _ := classify(addr(a)); got != what {
				t.Errorf("%s is %q, want %q", a, got, what)
			}
		}
	}
}

// Every address of a special range is special, however it is wrapped.
func TestSpecialEdges(t *testing.T) {
	for _, s := range slices.Concat(special4(), special6()) {
		for _, a := range []netip.Addr{s.prefix.Addr(), last(s.prefix)} {
			if what, _ := classify(a); what == "" {
				t.Errorf("%v of %v is not special", a, s.prefix)
			}
			if !a.Is4() {
				continue
			}
			b := a.As4()
			wrapped := append(addr("64:ff9b::").AsSlice()[:12], b[:]...)
			six, _ := netip.AddrFromSlice(wrapped)
			if what, _ := classify(six); what == "" {
				t.Errorf("%v, that is %v, is not special", six, a)
			}
		}
	}
}

func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestAddress(t *testing.T) {
	own := func(a netip.Addr) bool {
		return a == addr("93.184.215.14") || a == addr("192.168.1.5") || a == addr("127.0.0.1")
	}
	rules := func(r ...RuleSource) Source { return Source{Rules: r} }
	allow := func(targets ...string) Source { return rules(RuleSource{Allow: targets}) }
	cases := []struct {
		name   string
		source Source
		addr   string
		port   uint16
		proto  Protocol
		want   Verdict
	}{
		{"public", Source{}, "1.1.1.1", 443, TLS, Allow},
		{"public v6", Source{}, "2606:4700::1111", 443, TLS, Allow},
		{"through NAT64", Source{}, "64:ff9b::101:101", 443, TLS, Allow},
		{"private", Source{}, "10.0.0.1", 443, TLS, Deny},
		{"private behind open", Source{Default: "allow"}, "10.0.0.1", 443, TLS, Deny},
		{"star names nothing", allow("*"), "10.0.0.1", 443, TLS, Deny},
		{"everything names nothing", allow("0.0.0.0/0", "::/0"), "10.0.0.1", 443, TLS, Deny},
		{"more than the special range names nothing", allow("10.0.0.0/7"), "10.0.0.1", 443, TLS, Deny},
		{"a rule around reserved space does not name loopback", allow("::/3"), "::1", 443, TLS, Deny},
		{"named by range", allow("10.0.0.0/8"), "10.0.0.1", 443, TLS, Allow},
		{"named by address", allow("10.0.0.1"), "10.0.0.1", 443, TLS, Allow},
		{"another address", allow("10.0.0.2"), "10.0.0.1", 443, TLS, Deny},
		{"mapped", allow("10.0.0.1"), "::ffff:10.0.0.1", 443, TLS, Allow},
		{"named, mapped", allow("::ffff:10.0.0.1"), "10.0.0.1", 443, TLS, Allow},
		{"named, but not through NAT64", allow("10.0.0.1"), "64:ff9b::10.0.0.1", 443, TLS, Deny},
		{"port", allow("10.0.0.1:80"), "10.0.0.1", 443, TLS, Deny},
		{"port matches", allow("10.0.0.1:80,443"), "10.0.0.1", 443, TLS, Allow},
		{"protocol", rules(RuleSource{Allow: []string{"10.0.0.1"}, Protocol: "http"}), "10.0.0.1", 443, TLS, Deny},
		{"udp is not meant", allow("10.0.0.1"), "10.0.0.1", 53, UDP, Deny},
		{"udp", rules(RuleSource{Allow: []string{"10.0.0.1"}, Protocol: "udp"}), "10.0.0.1", 53, UDP, Allow},
		{"named by ask", rules(RuleSource{Ask: []string{"10.0.0.1"}}), "10.0.0.1", 443, TLS, Ask},
		{"granted", Source{Grants: true, Rules: []RuleSource{{Allow: []string{"10.0.0.1"}}}}, "10.0.0.1", 443, TLS, Allow},
		{"a name rule names no address", allow("intranet.example"), "10.0.0.1", 443, TLS, Deny},
		{"deny beats", rules(RuleSource{Allow: []string{"10.0.0.1"}, Deny: []string{"10.0.0.0/8"}}), "10.0.0.1", 443, TLS, Deny},
		{"deny of public range", rules(RuleSource{Deny: []string{"1.1.0.0/16"}}), "1.1.1.1", 443, TLS, Deny},
		{"deny of public range through NAT64", rules(RuleSource{Deny: []string{"1.1.0.0/16"}}), "64:ff9b::101:101", 443, TLS, Deny},
		{"deny elsewhere", rules(RuleSource{Deny: []string{"1.2.0.0/16"}}), "1.1.1.1", 443, TLS, Allow},
		{"deny of another port", rules(RuleSource{Deny: []string{"1.1.0.0/16:25"}}), "1.1.1.1", 443, TLS, Allow},
		{"metadata", Source{}, "169.254.169.254", 80, HTTP, Deny},
		{"metadata is not named by its range", allow("169.254.0.0/16"), "169.254.169.254", 80, HTTP, Deny},
		{"beside metadata", allow("169.254.0.0/16"), "169.254.1.1", 80, HTTP, Allow},
		{"metadata in CGNAT", allow("100.64.0.0/10"), "100.100.100.200", 80, HTTP, Deny},
		{"metadata in ULA", allow("fd00::/8"), "fd00:ec2::254", 80, HTTP, Deny},
		{"metadata that looks public", allow("168.0.0.0/8"), "168.63.129.16", 80, HTTP, Deny},
		{"metadata named", allow("169.254.169.254"), "169.254.169.254", 80, HTTP, Allow},
		{"own public", Source{}, "93.184.215.14", 443, TLS, Deny},
		{"own public by range", allow("93.184.0.0/16"), "93.184.215.14", 443, TLS, Deny},
		{"own public named", allow("93.184.215.14"), "93.184.215.14", 443, TLS, Allow},
		{"own public through NAT64", Source{}, "64:ff9b::5db8:d70e", 443, TLS, Deny},
		{"own private by range", allow("192.168.0.0/16"), "192.168.1.5", 443, TLS, Deny},
		{"neighbour by range", allow("192.168.0.0/16"), "192.168.1.6", 443, TLS, Allow},
		{"loopback by range", allow("127.0.0.0/8"), "127.0.0.1", 443, TLS, Allow},
		{"unspecified", allow("*"), "0.0.0.0", 443, TLS, Deny},
		{"zone", Source{}, "fe80::1%eth0", 443, TLS, Deny},
	}
	for _, c := range cases {
		set, err := Compile(c.source)
		if err != nil {
			t.Fatal(err)
		}
		// Whatever the name was, it must not matter.
		d := set.Address(Query{Host: "example.com", Port: c.port, Protocol: c.proto}, addr(c.addr), own)
		if d.Verdict != c.want || d.Reason == "" || d.Rule == "" {
			t.Errorf("%s: %+v, want %v", c.name, d, c.want)
		}
	}
	set, _ := Compile(Source{})
	if d := set.Address(Query{Port: 443}, netip.Addr{}, nil); d.Verdict != Deny {
		t.Errorf("no address: %+v", d)
	}
}
