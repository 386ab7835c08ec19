package packet

import "encoding/binary"

// vnetSize is the size of the header that the kernel puts before frames, and expects
// there, on packet sockets and TAPs that are asked to (struct virtio_net_hdr). It
// says which work on a frame is still to be done.
const vnetSize = 10

const (
	vnetNeedsChecksum = 1

	vnetGSOTCP4  = 1
	vnetGSOTCP6  = 4
	vnetGSOUDP   = 5 // VIRTIO_NET_HDR_GSO_UDP_L4, Linux 6.2
	vnetGSOFlags = 0x80
)

// vnetHeader is the header that asks for an offload.
func vnetHeader(o offload) (b [vnetSize]byte) {
	if !o.checksum {
		return b
	}
	b[0] = vnetNeedsChecksum
	binary.NativeEndian.PutUint16(b[6:], o.start)
	binary.NativeEndian.PutUint16(b[8:], o.offset)
	if o.segment != 0 {
		b[1] = vnetGSOTCP4
		if o.v6 {
			b[1] = vnetGSOTCP6
		}
		binary.NativeEndian.PutUint16(b[2:], o.headers)
		binary.NativeEndian.PutUint16(b[4:], o.segment)
	}
	return b
}

// vnetSegment is the size of each UDP datagram in a frame that has several. TCP does
// not mind how it was cut.
func vnetSegment(b []byte) int {
	if b[1]&^vnetGSOFlags != vnetGSOUDP {
		return 0
	}
	return int(binary.NativeEndian.Uint16(b[4:]))
}
