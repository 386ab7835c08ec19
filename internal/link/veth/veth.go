// Package veth is the machine's half of a link of packets, for a namespace of this
// kernel. The other half is package packet. They are apart because the guest agent needs
// this one only: the other one's TCP/IP stack would have to be initialised first, at
// every start of a sandbox, for 0.5 ms.
package veth

// Names of the veth pair: the machine's own interface, and the far side, from which
// all that the machine sends is taken.
const (
	NearName = "eth0"
	FarName  = "coffer0"
)

// MTU is the packet size of the pair. With packets this large, the cost per packet,
// which is most of the cost of a stack in user space, hardly counts.
const MTU = 65504

// The Ethernet addresses of the gateway's side and of the machine.
var (
	GatewayMAC = [6]byte{0x02, 0x63, 0x6f, 0x66, 0x65, 0x01}
	MachineMAC = [6]byte{0x02, 0x63, 0x6f, 0x66, 0x65, 0x02}
)
