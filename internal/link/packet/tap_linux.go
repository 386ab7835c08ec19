package packet

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewTAP is the link over a TAP, without packet information (IFF_NO_PI), with or
// without the vnet header (IFF_VNET_HDR), which makes it faster. It owns the file.
func NewTAP(f *os.File, o Options) (*Link, error) {
	d, err := openDevice(f, tapOffloads)
	if err != nil {
		return nil, fmt.Errorf("TAP: %w", err)
	}
	return open(d, o)
}

// tapOffloads finds out whether frames have a vnet header, and if so lets the machine
// leave checksums and the cutting of TCP to us, who do neither.
func tapOffloads(fd int) (vnet bool, err error) {
	r, err := unix.NewIfreq("tap") // any name: the kernel answers with the true one
	if err != nil {
		return false, err
	}
	if err := unix.IoctlIfreq(fd, unix.TUNGETIFF, r); err != nil {
		return false, fmt.Errorf("ask for its kind: %w", err)
	}
	flags := r.Uint16()
	if flags&unix.IFF_TAP == 0 || flags&unix.IFF_NO_PI == 0 {
		return false, errors.New("not opened as a TAP without packet information")
	}
	if flags&unix.IFF_VNET_HDR == 0 {
		return false, nil
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, vnetSize); err != nil {
		return false, fmt.Errorf("set the header's size: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6); err != nil {
		return false, fmt.Errorf("set offloads: %w", err)
	}
	return true, nil
}
