package packet

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// receiveBuffer is how much may wait in the kernel to be read. It takes some: a large
// packet is 64 kB, and a machine may send several before we get to run. Ordinary
// users get what net.core.rmem_max allows, 4 MB since Linux 6.17 and 200 kB before.
const receiveBuffer = 4 << 20

// NewSocket is the link over a packet socket that is bound to the far side of the
// machine's interface, as Prepare makes it. It owns the file.
//
// A ring in shared memory (PACKET_MMAP) was tried and is slower: it costs another copy
// of every packet, and a slot of 64 kB even for a small one.
func NewSocket(f *os.File) (*Link, error) {
	d, err := openDevice(f, func(fd int) error {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
		return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1)
	})
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return open(d)
}
