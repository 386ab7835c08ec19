package dns

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/net/dns/dnsmessage"
)

// reverse answers what name an address has, for the addresses that this package gave
// out. Others have none here: asking outside would let the question out.
func (r *Resolver) reverse(name string, t dnsmessage.Type) reply {
	host, ok := r.nameOf(unreverse(name))
	if !ok {
		return blocked("only addresses of names asked for here have names")
	}
	if t != dnsmessage.TypePTR {
		return reply{}
	}
	n, err := dnsmessage.NewName(host + ".")
	if err != nil {
		return reply{rcode: dnsmessage.RCodeServerFailure}
	}
	return reply{records: []dnsmessage.ResourceBody{&dnsmessage.PTRResource{PTR: n}}}
}

func (r *Resolver) nameOf(a netip.Addr) (string, bool) {
	switch {
	case a == link.Host4 || a == link.Host6:
		return link.HostName, true
	case a == link.About4 || a == link.About6:
		return link.AboutName, true
	case a.IsLoopback():
		return "localhost", true
	}
	return r.Table.Name(a)
}

// unreverse turns d.c.b.a.in-addr.arpa, or the 32 digits of ip6.arpa, into the address.
// Anything else becomes the zero Addr.
func unreverse(name string) netip.Addr {
	if s, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		var b [4]byte
		for i := 3; i >= 0; i-- {
			var label string
			label, s, ok = strings.Cut(s, ".")
			n, err := strconv.ParseUint(label, 10, 8)
			if err != nil || ok != (i > 0) || strconv.FormatUint(n, 10) != label {
				return netip.Addr{}
			}
			b[i] = byte(n)
		}
		return netip.AddrFrom4(b)
	}
	s := strings.TrimSuffix(name, ".ip6.arpa")
	var b [16]byte
	if len(s) != 4*len(b)-1 {
		return netip.Addr{}
	}
	for i := range 2 * len(b) {
		n, err := strconv.ParseUint(s[2*i:2*i+1], 16, 4)
		if err != nil || i > 0 && s[2*i-1] != '.' {
			return netip.Addr{}
		}
		b[len(b)-1-i/2] |= byte(n) << (4 * (i % 2))
	}
	return netip.AddrFrom16(b)
}
