package link

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rules hand what programs send to the link's sockets. In the words of nft:
//
//	table inet coffer {
//	  set refused { type inet_service; flags dynamic; size 64 }
//	  chain out {
//	    type filter hook prerouting priority mangle
//	    ip daddr 127.0.0.0/8 tcp sequence 0 tcp flags == rst|ack add @refused { tcp sport }
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
type rules struct{ list [][]expr.Any }

// redirect adds the rules for a family, whose sockets listen at two ports.
func (r *rules) redirect(f family, tcp, udp uint16) {
	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	refuse := &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}
	r.add(f.is(), f.to(netip.PrefixFrom(f.own, f.own.BitLen())), one(accept))
	refused := payload(expr.PayloadBaseTransportHeader, 4, []byte{0, 0, 0, 0})
	r.add(f.is(), protocol(unix.IPPROTO_TCP), f.to(f.loopback), refused, payload(expr.PayloadBaseTransportHeader, 13, []byte{rstAck}), []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2},
		&expr.Dynset{SrcRegKey: register, SetName: refusedSet, Operation: unix.NFT_DYNSET_OP_ADD},
	})
	r.add(f.is(), f.to(f.loopback), one(accept))
	r.add(f.is(), protocol(unix.IPPROTO_TCP), f.tproxy(tcp), one(accept))
	r.add(f.is(), protocol(unix.IPPROTO_UDP), f.tproxy(udp), one(accept))
	r.add(f.is(), protocol(f.icmp), f.to(f.synthetic), one(accept))
	r.add(f.is(), protocol(f.icmp), payload(expr.PayloadBaseTransportHeader, 0, []byte{f.echo}), one(refuse))
}

// add adds a rule: expressions that compute with registers, of which the first that does
// not hold ends it.
func (r *rules) add(parts ...[]expr.Any) {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	r.list = append(r.list, all)
}

// apply gives the rules to the kernel. The table goes first and alone: a kernel without
// nftables answers a whole batch with one error, and the library waits for one per message.
func (r *rules) apply() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Name: "coffer", Family: nftables.TableFamilyINet})
	if err := c.Flush(); err != nil {
		return err
	}
	chain := c.AddChain(&nftables.Chain{
		Name: "out", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityMangle,
	})
	if err := c.AddSet(&nftables.Set{Table: table, Name: refusedSet, KeyType: nftables.TypeInetService, Dynamic: true, Size: 64}, nil); err != nil {
		return err
	}
	for _, one := range r.list {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: one})
	}
	return c.Flush()
}

// refusedSet is the set of ports of loopback at which a connection was refused, and rstAck are the
// flags of the answer.
const (
	refusedSet = "refused"
	rstAck     = 0x14
)

// Refused returns the ports of loopback at which connections were refused, in the machine that it is
// called in, since it was called last.
func Refused() (ports []uint16) {
	c, err := nftables.New()
	if err != nil {
		return nil
	}
	set := &nftables.Set{Table: &nftables.Table{Name: "coffer", Family: nftables.TableFamilyINet}, Name: refusedSet, KeyType: nftables.TypeInetService}
	elements, err := c.GetSetElements(set)
	if err != nil || len(elements) == 0 {
		return nil
	}
	for _, e := range elements {
		ports = append(ports, binary.BigEndian.Uint16(e.Key))
	}
	c.FlushSet(set)
	_ = c.Flush()
	return ports
}

const register, register2 = unix.NFT_REG_1, unix.NFT_REG_2

func one(e expr.Any) []expr.Any { return []expr.Any{e} }

// is holds for packets of the family.
func (f family) is() []expr.Any { return meta(expr.MetaKeyNFPROTO, byte(f.number)) }

// protocol holds for packets of a protocol above IP.
func protocol(n byte) []expr.Any { return meta(expr.MetaKeyL4PROTO, n) }

func meta(key expr.MetaKey, value byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: register}, equals([]byte{value})}
}

func equals(v []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: v} }

// payload holds for packets with these bytes at a place in a header.
func payload(base expr.PayloadBase, offset uint32, v []byte) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: base, Offset: offset, Len: uint32(len(v))}, equals(v)}
}

// to holds for packets to addresses of p.
func (f family) to(p netip.Prefix) []expr.Any {
	n := uint32(p.Addr().BitLen() / 8)
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: f.destination, Len: n},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: n,
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()), Xor: make([]byte, n)},
		equals(p.Masked().Addr().AsSlice()),
	}
}

// tproxy gives the packet to the socket that listens at this port. If there were none,
// the rule would not hold.
func (f family) tproxy(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: register, Data: f.listener.AsSlice()},
		&expr.Immediate{Register: register2, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.TProxy{Family: byte(f.number), TableFamily: unix.NFPROTO_INET, RegAddr: register, RegPort: register2},
	}
}
