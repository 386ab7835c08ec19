package kernel

import "golang.org/x/sys/unix"

// Written is what [Prepare] does, written down for a process that cannot run it: a fork of
// this one can make system calls, but no Go (see package jail). It makes the sockets, gives
// each order to the kernel through a netlink socket of its own, and hands all of them out.
// The kernel answers an order while it is given, so the answers are in those sockets, for
// whoever has them to read: see [Written.Check].
type Written struct {
	Sockets []Socket
	Orders  []Order
	Late    bool // the sockets come after the orders
}

// An Order is a row of messages to the kernel.
type Order struct {
	Protocol int    // of netlink
	Bytes    []byte // all that is to be sent
	what     *batch
}

// listening is the port of the sockets. In a network namespace that is made for them it is
// free, and no program inside could take it.
const listening = 9

// Write writes it down.
func Write() *Written {
	families := []family{ipv4}
	if hasIPv6() {
		families = append(families, ipv6)
	}
	w := &Written{}
	var at []ports
	for _, f := range families {
		w.Sockets = append(w.Sockets, f.sockets(listening)...)
		at = append(at, ports{listening, listening})
	}
	w.order(unix.NETLINK_NETFILTER, &redirect(families, at).batch)
	// There is no other interface than loopback, which has the machine's address, too. Most
	// programs look for an address only, and to make an interface takes as long as the rest.
	up := bringUp()
	up.route(families, loopback)
	w.order(unix.NETLINK_ROUTE, up)
	return w
}

func (w *Written) order(protocol int, b *batch) {
	b.finish()
	w.Orders = append(w.Orders, Order{protocol, b.bytes, b})
}

// Check reads the kernel's answers to the orders, from their sockets.
func (w *Written) Check(sockets []int) error {
	for n, o := range w.Orders {
		if err := o.what.hear(sockets[n], unix.MSG_DONTWAIT); err != nil {
			return err
		}
	}
	return nil
}
