package dns

import (
	"encoding/hex"
	"net/netip"
	"slices"
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
func unreverse(name string) (a netip.Addr) {
	if s, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		labels := strings.Split(s, ".")
		slices.Reverse(labels)
		if a, _ = netip.ParseAddr(strings.Join(labels, ".")); !a.Is4() {
			return netip.Addr{}
		}
		return a
	}
	digits := strings.Split(strings.TrimSuffix(name, ".ip6.arpa"), ".")
	slices.Reverse(digits)
	b, err := hex.DecodeString(strings.Join(digits, ""))
	if err == nil && len(digits) == 32 && !slices.Contains(digits, "") {
		a, _ = netip.AddrFromSlice(b)
	}
	return a
}
