package policy

import (
	"net/netip"
	"slices"
	"sync"
)

// A special range is one whose addresses do not stand for a machine on the internet.
type special struct {
	prefix netip.Prefix
	what   string
}

func specials(what string, prefixes ...string) []special {
	list := make([]special, len(prefixes))
	for i, p := range prefixes {
		list[i] = special{netip.MustParsePrefix(p), what}
	}
	return list
}

// The ranges are those of IANA's registries of special-purpose addresses that are not
// globally reachable, and what never has been or no longer is in use.
var special4 = sync.OnceValue(func() []special {
	return slices.Concat(
		specials("loopback", "127.0.0.0/8"),
		specials("private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
		specials("link-local", "169.254.0.0/16"),
		specials("carrier-grade NAT", "100.64.0.0/10"),
		specials("unspecified", "0.0.0.0/8"),
		specials("multicast", "224.0.0.0/4"),
		specials("benchmarking", "198.18.0.0/15"),
		specials("documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
		specials("reserved", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4"),
	)
})

var special6 = sync.OnceValue(func() []special {
	return slices.Concat(
		specials("loopback", "::1/128"),
		specials("unspecified", "::/128"),
		specials("private", "fc00::/7", "fec0::/10"),
		specials("link-local", "fe80::/10"),
		specials("multicast", "ff00::/8"),
		specials("documentation", "2001:db8::/32", "3fff::/20"),
		// Tunnels and translators that would carry packets to any IPv4 address.
		specials("IPv4 in IPv6", "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
		specials("reserved", "2001::/23", "100::/64"),
		// All of the internet is in 2000::/3, so far. The rest, in the parts that are left:
		specials("reserved", "::/3", "4000::/2", "8000::/1"),
	)
})

// nat64 translates to the IPv4 internet, where there is no other way to it.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// metadata are services that hand out a cloud machine's credentials to whoever can
// connect. All but one lie in special ranges; one of them is a public address. They
// are listed because a rule for a range never names them: who allows 100.64.0.0/10 for
// a private network does not think of them.
var metadata = sync.OnceValue(func() map[netip.Addr]bool {
	set := map[netip.Addr]bool{}
	for _, a := range []string{
		"169.254.169.254", // nearly every cloud
		"169.254.169.253", // the resolver beside it
		"169.254.170.2", "169.254.170.23", "fd00:ec2::23",
		"169.254.42.42", "fd00:42::42",
		"169.254.0.23",
		"100.100.100.200",
		"192.0.0.192",
		"168.63.129.16",
		"fd00:ec2::254", "fd00:ec2::253",
		"fd20:ce::254",
		"fe80::a9fe:a9fe",
	} {
		set[netip.MustParseAddr(a)] = true
	}
	return set
})

// IsMetadata says whether an address is a cloud's metadata service.
func IsMetadata(a netip.Addr) bool { return metadata()[a.Unmap().WithZone("")] }

// classify says what is special about an address, "" if nothing is, and how long the
// prefix of a rule must be to name it: as long as the special range's, so that the rule
// lies inside. It wants an address that is unmapped and has no zone.
func classify(a netip.Addr) (what string, bits int) {
	if metadata()[a] {
		return "cloud metadata", a.BitLen()
	}
	list := special4()
	if a.Is6() {
		list = special6()
		if v4, ok := embedded(a); ok {
			what, bits := classify(v4)
			if what != "" || nat64.Contains(a) {
				return what, 96 + bits
			}
		}
	}
	for _, s := range list {
		if s.prefix.Contains(a) {
			return s.what, s.prefix.Bits()
		}
	}
	return "", 0
}

// embedded returns the IPv4 address that an IPv6 address leads to.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	v4 := func(i int) (netip.Addr, bool) { return netip.AddrFrom4([4]byte(b[i : i+4])), true }
	zero := func(from, to int) bool {
		for _, c := range b[from:to] {
			if c != 0 {
				return false
			}
		}
		return true
	}
	switch {
	case nat64.Contains(a):
		return v4(12)
	case b[0] == 0x20 && b[1] == 0x02: // 6to4
		return v4(2)
	case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0: // Teredo, inverted
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case zero(0, 12) && !zero(12, 14): // the oldest form, ::192.0.2.7
		return v4(12)
	case zero(0, 10) && b[10] == 0xff && b[11] == 0xff: // mapped
		return v4(12)
	case zero(0, 8) && b[8] == 0xff && b[9] == 0xff && zero(10, 12): // translated
		return v4(12)
	case b[0] == 0 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b && b[4] == 0 && b[5] == 1: // local NAT64
		return v4(12)
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return v4(12)
	}
	return netip.Addr{}, false
}
