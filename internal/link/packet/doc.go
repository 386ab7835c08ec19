// Package packet is the link for machines that speak in packets: virtual machines,
// user-space kernels, and namespaces on hosts without nftables.
//
// The machine has one Ethernet interface. Whatever leaves it arrives here as a frame,
// by a packet socket on the far side of a veth pair, by a TAP, or by a stream of
// frames. Nobody else is on that wire, so there is little left of Ethernet: this side
// claims every address the machine asks for, and answers to the address of the last
// frame it got.
//
//	frames ──▶ sort ─┬─▶ TCP ──▶ gVisor's stack ──▶ Flow, Conn
//	                 ├─▶ UDP ──▶ ReadDatagram
//	                 ├─▶ ARP, neighbour discovery, echo: answered on the spot
//	                 └─▶ all else: refused by ICMP, or dropped where an
//	                     answer would be wrong
//
// TCP is the only protocol that needs a stack with state, and gVisor's is used for
// it; it also puts fragments together. Everything else is sorted from the bytes of
// one frame, without state, so that a hostile machine finds nothing to fill up. What
// is kept for TCP has bounds: the number of connections, their buffers (which shrink
// as connections grow in number), connections that wait for a decision, connections
// on their way out.
//
// Error messages of ICMP that the machine sends are ignored. Between here and the
// machine is no router that could have anything to report.
package packet
