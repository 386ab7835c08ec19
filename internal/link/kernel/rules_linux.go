package kernel

import (
	"encoding/binary"
	"net/netip"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/sys/unix"
)

// family is what differs between IPv4 and IPv6.
type family struct {
	number              byte
	destination         uint32 // where in the header it is
	icmp, echo          byte   // the number of ICMP, and in it of pings
	own                 netip.Addr
	loopback, synthetic netip.Prefix
	listener            netip.Addr
}

var (
	ipv4 = family{unix.AF_INET, 16, unix.IPPROTO_ICMP, 8, link.Own4,
		netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8), link.Synthetic4, netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	ipv6 = family{unix.AF_INET6, 24, unix.IPPROTO_ICMPV6, 128, link.Own6,
		netip.PrefixFrom(netip.IPv6Loopback(), 128), link.Synthetic6, netip.IPv6Loopback()}
)

// ports are where a family's sockets listen.
type ports struct{ tcp, udp uint16 }

// redirect sends what programs send to the sockets. In the words of nft:
//
//	table inet coffer {
//	  chain out {
//	    type filter hook prerouting priority mangle
//	    ip daddr { Own, 127.0.0.0/8 } accept
//	    meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:PORT accept
//	    meta nfproto ipv4 meta l4proto udp tproxy ip to 127.0.0.1:PORT accept
//	    icmp type echo-request ip daddr != SYNTHETIC reject with icmpx admin-prohibited
//	    (the same for IPv6)
//	  }
//	}
//
// The kernel itself answers pings, as every address is its own: only those to addresses
// that were given to names get that far. Whatever speaks another protocol meets the
// kernel of its own machine, too, which refuses it as any machine would.
func redirect(families []family, at []ports) *rules {
	const mangle = -150 // the priority of rules that change where packets go
	b := &rules{}
	b.header(unix.NFNL_MSG_BATCH_BEGIN, 0, "", unix.NFNL_SUBSYS_NFTABLES)
	b.header(nft|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "add a table", 0)
	b.text(unix.NFTA_TABLE_NAME, table)
	b.header(nft|unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, "add a chain", 0)
	b.text(unix.NFTA_CHAIN_TABLE, table)
	b.text(unix.NFTA_CHAIN_NAME, chain)
	b.nest(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, func() {
		b.number(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_PRE_ROUTING)
		var priority int32 = mangle
		b.number(unix.NFTA_HOOK_PRIORITY, uint32(priority))
	})
	b.text(unix.NFTA_CHAIN_TYPE, "filter")
	for n, f := range families {
		b.rule("accept what is for the machine itself", func() { b.is(f); b.to(f, netip.PrefixFrom(f.own, f.own.BitLen())); b.accept() })
		b.rule("accept what is for loopback", func() { b.is(f); b.to(f, f.loopback); b.accept() })
		b.rule("take connections over", func() { b.is(f); b.protocol(unix.IPPROTO_TCP); b.tproxy(f, at[n].tcp); b.accept() })
		b.rule("take datagrams over", func() { b.is(f); b.protocol(unix.IPPROTO_UDP); b.tproxy(f, at[n].udp); b.accept() })
		b.rule("answer pings to names", func() { b.is(f); b.protocol(f.icmp); b.to(f, f.synthetic); b.accept() })
		b.rule("reject other pings", func() { b.is(f); b.protocol(f.icmp); b.begins(f.echo); b.reject() })
	}
	b.header(unix.NFNL_MSG_BATCH_END, 0, "", unix.NFNL_SUBSYS_NFTABLES)
	return b
}

const (
	nft   = unix.NFNL_SUBSYS_NFTABLES << 8
	table = "coffer"
	chain = "out"
)

// rules is a batch for nftables. A rule is a row of expressions, which compute with
// registers; the first that does not hold ends it.
type rules struct{ batch }

// header begins a message to nftables.
func (b *rules) header(kind, flags uint16, what string, resource uint16) {
	h := []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0}
	if resource != 0 {
		h[0] = unix.AF_UNSPEC
	}
	b.message(kind, flags, what, binary.BigEndian.AppendUint16(h, resource))
}

func (b *rules) rule(what string, expressions func()) {
	b.header(nft|unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, what, 0)
	b.text(unix.NFTA_RULE_TABLE, table)
	b.text(unix.NFTA_RULE_CHAIN, chain)
	b.nest(unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, expressions)
}

func (b *rules) expression(name string, data func()) {
	b.nest(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, func() {
		b.text(unix.NFTA_EXPR_NAME, name)
		b.nest(unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, data)
	})
}

// value is a nested attribute with bytes in it.
func (b *rules) value(kind uint16, v []byte) {
	b.nest(kind|unix.NLA_F_NESTED, func() { b.attribute(unix.NFTA_DATA_VALUE, v) })
}

// is holds for packets of the family.
func (b *rules) is(f family) {
	b.meta(unix.NFT_META_NFPROTO)
	b.equals([]byte{f.number}) // the numbers of NFPROTO_ and AF_ are the same
}

// protocol holds for packets of a protocol above IP.
func (b *rules) protocol(n byte) {
	b.meta(unix.NFT_META_L4PROTO)
	b.equals([]byte{n})
}

func (b *rules) meta(key uint32) {
	b.expression("meta", func() {
		b.number(unix.NFTA_META_KEY, key)
		b.number(unix.NFTA_META_DREG, unix.NFT_REG_1)
	})
}

func (b *rules) equals(v []byte) {
	b.expression("cmp", func() {
		b.number(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		b.number(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
		b.value(unix.NFTA_CMP_DATA, v)
	})
}

// to holds for packets to addresses of p.
func (b *rules) to(f family, p netip.Prefix) {
	n := (p.Bits() + 7) / 8
	b.expression("payload", func() {
		b.number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		b.number(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER)
		b.number(unix.NFTA_PAYLOAD_OFFSET, f.destination)
		b.number(unix.NFTA_PAYLOAD_LEN, uint32(n))
	})
	if odd := p.Bits() % 8; odd != 0 {
		mask := make([]byte, n)
		for i := range mask {
			mask[i] = 0xff
		}
		mask[n-1] <<= 8 - odd
		b.expression("bitwise", func() {
			b.number(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
			b.number(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
			b.number(unix.NFTA_BITWISE_LEN, uint32(n))
			b.value(unix.NFTA_BITWISE_MASK, mask)
			b.value(unix.NFTA_BITWISE_XOR, make([]byte, n))
		})
	}
	b.equals(p.Addr().AsSlice()[:n])
}

// begins holds for packets whose payload begins with a byte.
func (b *rules) begins(with byte) {
	b.expression("payload", func() {
		b.number(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		b.number(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_TRANSPORT_HEADER)
		b.number(unix.NFTA_PAYLOAD_OFFSET, 0)
		b.number(unix.NFTA_PAYLOAD_LEN, 1)
	})
	b.equals([]byte{with})
}

// tproxy gives the packet to the socket that listens at this port. If there were none,
// the rule would not hold.
func (b *rules) tproxy(f family, port uint16) {
	b.load(unix.NFT_REG_1, f.listener.AsSlice())
	b.load(unix.NFT_REG_2, binary.BigEndian.AppendUint16(nil, port))
	const attrFamily, attrAddress, attrPort = 1, 2, 3 // NFTA_TPROXY_…
	b.expression("tproxy", func() {
		b.number(attrFamily, uint32(f.number))
		b.number(attrAddress, unix.NFT_REG_1)
		b.number(attrPort, unix.NFT_REG_2)
	})
}

func (b *rules) load(register uint32, v []byte) {
	b.expression("immediate", func() {
		b.number(unix.NFTA_IMMEDIATE_DREG, register)
		b.value(unix.NFTA_IMMEDIATE_DATA, v)
	})
}

// verdictAccept is NF_ACCEPT.
const verdictAccept = 1

func (b *rules) accept() {
	b.expression("immediate", func() {
		b.number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		b.nest(unix.NFTA_IMMEDIATE_DATA|unix.NLA_F_NESTED, func() {
			b.nest(unix.NFTA_DATA_VERDICT|unix.NLA_F_NESTED, func() { b.number(unix.NFTA_VERDICT_CODE, verdictAccept) })
		})
	})
}

func (b *rules) reject() {
	b.expression("reject", func() {
		b.number(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMPX_UNREACH)
		b.attribute(unix.NFTA_REJECT_ICMP_CODE, []byte{unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED})
	})
}
