// Package fakenet is an internet for tests: one in which everything may be attacked.
//
// A test that calls [Enter] is run again, in a process with a network namespace of its
// own. There is one interface there, loopback, and a route says that every address there
// is, IPv4 and IPv6, public and private, is delivered on it. So the whole internet is in
// that process: whoever connects to whatever address finds the servers of [World]
// listening, and nothing can leave, as there is nowhere to leave to. Whichever name
// server the host's resolv.conf names, it is one of ours.
//
// All servers write down what they are told (see [Log]), with the address that they were
// reached at. A wall holds if what an attempt wanted to say is not in the log, and the
// attempt is worth something if the same one, made without a wall, is.
//
// The servers, on all addresses at once:
//
//	7, 7070      echo, TCP and UDP; UDP also on 443
//	22           speaks first, like SSH
//	53           DNS, TCP and UDP: see [Zone]
//	80, 8080     HTTP, as lenient as a server can be
//	443, 853, 8443  the same over TLS, for any name, with certificates of [World.CA];
//	                names can have a server of their own: see [World.Site]
//	3128         HTTP proxy with CONNECT
//	3306         speaks first, like MySQL
//	5432         speaks after eight bytes, like PostgreSQL
//
// Addresses that the interface really has are the host's own ([Own4], [Own6], [OwnLAN]
// and loopback), and so is [Routed], by a local route; all the others belong to somebody else,
// as far as anybody can tell.
//
// An ordinary user gets a user namespace as well, in which he is himself.
package fakenet
