package packet

import (
	"fmt"
	"io"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

const nic tcpip.NICID = 1

const (
	// maxWaiting is how many connections may wait for a decision at once. The SYN of
	// another one is ignored; the program's kernel repeats it.
	maxWaiting = 2048

	// An endpoint that nobody has acknowledged is given up after 1+2+4+8 seconds.
	synRetries = 3
	// A connection whose other half the machine keeps open after we have closed it.
	lingerTimeout = 20 * time.Second
	// The machine is one hop away on a wire that does not reorder: nothing of an old
	// connection can turn up in a new one, and a program that reuses its port at once
	// must not find it blocked.
	timeWait = 0
)

// quiet keeps the stack from writing about the machine's strange packets to standard
// error, which is the user's terminal.
var quiet = sync.OnceFunc(func() {
	log.SetTarget(&log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
})

func (l *Link) startStack() error {
	quiet()
	l.stack = stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		// Cubic waits less for its window to grow again after a loss than Reno.
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocolCUBIC, udp.NewProtocol},
	})
	l.connections.stack = l.stack

	for _, o := range []tcpip.SettableTransportProtocolOption{
		ptr(tcpip.TCPSACKEnabled(true)),
		ptr(tcpip.TCPModerateReceiveBufferOption(true)),
		ptr(tcpip.TCPTimeWaitTimeoutOption(timeWait)),
		ptr(tcpip.TCPLingerTimeoutOption(lingerTimeout)),
		ptr(tcpip.TCPSynRetriesOption(synRetries)),
	} {
		if err := l.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set up the TCP stack (%T): %s", o, err)
		}
	}
	l.connections.limit(maxBuffer)

	forwarder := tcp.NewForwarder(l.stack, minBuffer, maxWaiting, l.incoming)
	l.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	l.stack.SetTransportProtocolHandler(udp.ProtocolNumber, l.reassembled)

	if err := l.stack.CreateNIC(nic, l.port); err != nil {
		return fmt.Errorf("add the interface to the TCP stack: %s", err)
	}
	// To be every address there is: take packets for any, send packets from any.
	if err := l.stack.SetPromiscuousMode(nic, true); err != nil {
		return fmt.Errorf("set up the TCP stack: %s", err)
	}
	if err := l.stack.SetSpoofing(nic, true); err != nil {
		return fmt.Errorf("set up the TCP stack: %s", err)
	}
	l.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nic},
		{Destination: header.IPv6EmptySubnet, NIC: nic},
	})
	return nil
}

func ptr[T any](v T) *T { return &v }
