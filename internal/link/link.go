// Package link is the wire between a machine and the gateway that is its network.
//
// A machine has no route to anything. Whatever its programs send comes out of a [Link]:
// TCP connections as flows, each with the address that the program meant, and UDP as
// datagrams. The gateway at the far end decides, dials for itself, and answers in the
// name of that address. So there is one gateway, whatever carries the flows: the kernel, from
// sockets inside the machine's network namespace ([Open]), or, where that has no packet rules,
// gVisor's TCP/IP stack, which reads the machine's packets ([OpenPackets]).
package link

import (
	"net"
	"net/netip"
)

// A Link yields what programs inside send. Its methods may be called from several
// goroutines at once; after Close they return net.ErrClosed.
type Link interface {
	// Accept waits for the next TCP connection that a program inside opens.
	Accept() (Flow, error)
	// ReadDatagram waits for the next UDP datagram and says who sent it and to
	// which address. A longer datagram than b is cut.
	ReadDatagram(b []byte) (n int, from, to netip.AddrPort, err error)
	// WriteDatagram sends a datagram to a program inside, in the name of from.
	WriteDatagram(b []byte, from, to netip.AddrPort) error
	// RefuseDatagram tells the program that sent a datagram from from to to that
	// nobody receives it: its socket gets "connection refused" at once.
	RefuseDatagram(from, to netip.AddrPort) error
	Close() error
}

// A Flow is a TCP connection that a program inside has asked for. One of Accept and
// Refuse must be called, once.
type Flow interface {
	Source() netip.AddrPort
	// Destination is the address that the program meant.
	Destination() netip.AddrPort
	// Accept completes the connection.
	Accept() (Conn, error)
	// Refuse ends it with a reset: the program gets "connection refused", or
	// "connection reset" where its kernel has connected it already.
	Refuse()
}

// A Conn is an accepted flow.
type Conn interface {
	net.Conn
	// CloseWrite says that nothing more will be written; reading goes on.
	CloseWrite() error
	// Reset closes the connection so that the program sees an error and not an end.
	Reset()
}

// The addresses that every machine's network has, the same in all of them. Names get
// theirs from what is left of Synthetic4 and Synthetic6. Synthetic4 is the range set
// apart for testing network devices: nothing on the internet has such an address.
var (
	Synthetic4 = netip.MustParsePrefix("198.18.0.0/15")
	Synthetic6 = netip.MustParsePrefix("fd63:6f66:6665:7200::/56")

	// Reserved4 and Reserved6 are never given to names: they have the addresses below.
	Reserved4 = netip.MustParsePrefix("198.18.0.0/24")
	Reserved6 = netip.MustParsePrefix("fd63:6f66:6665:7200::/64")

	// Resolver answers DNS. (So does every other address, on port 53.)
	Resolver4 = netip.MustParseAddr("198.18.0.1")
	Resolver6 = netip.MustParseAddr("fd63:6f66:6665:7200::1")
	// Own is the address of the machine itself.
	Own4 = netip.MustParseAddr("198.18.0.2")
	Own6 = netip.MustParseAddr("fd63:6f66:6665:7200::2")
	// Host stands for the host's loopback interface, named host.coffer.internal.
	Host4 = netip.MustParseAddr("198.18.0.3")
	Host6 = netip.MustParseAddr("fd63:6f66:6665:7200::3")
	// About serves http://coffer.internal/.
	About4 = netip.MustParseAddr("198.18.0.4")
	About6 = netip.MustParseAddr("fd63:6f66:6665:7200::4")
)

// The names of Host and About.
const (
	HostName  = "host.coffer.internal"
	AboutName = "coffer.internal"
)
