// Package kernel is the link of machines that share the host's kernel.
//
// Inside the machine's own network namespace every address is made local: a route says
// that all of IPv4 and IPv6 is delivered on the loopback interface, and a rule of
// nftables (TPROXY) hands what arrives there to four listening sockets. The sockets are
// made inside, at boot, by [Prepare]; their descriptors go out to the supervisor, where
// [Open] makes a link of them. A socket belongs to the namespace that it was made in for
// ever, so the supervisor accepts connections that no packet of the host's network
// ever had a part in.
//
// The kernel keeps the address that a program meant: it is the local address of an
// accepted connection, and comes with every datagram. Answers to datagrams are written
// by hand, header and all, to a raw socket of the namespace, because they must come from
// whatever address and port the program asked.
//
// Measured against a TCP/IP stack of our own on the machine's packets (link/packet):
// twice the throughput at half the latency. Its one weakness is that a connection
// is made before the gateway has spoken: refusing it takes a reset.
//
// Programs inside cannot change any of this. They have no capability over the network
// namespace, nor has root of the sandbox, which lives in a user namespace below the one
// that owns it.
package kernel
