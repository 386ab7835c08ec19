package packet

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A device is the wire over a descriptor that gives and takes a frame per call.
type device struct {
	file *os.File
	raw  syscall.RawConn
	vnet bool // frames have a vnet header
}

// openDevice takes over a file, and asks setup what kind of device it is.
func openDevice(f *os.File, setup func(fd int) (vnet bool, err error)) (*device, error) {
	defer f.Close()
	file, err := pollable(f)
	if err != nil {
		return nil, err
	}
	d := &device{file: file}
	if d.raw, err = file.SyscallConn(); err == nil {
		if cerr := d.raw.Control(func(fd uintptr) { d.vnet, err = setup(int(fd)) }); cerr != nil {
			err = cerr
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return d, nil
}

// pollable is the file as one that Go's poller waits for, whatever it was before.
func pollable(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	if cerr := raw.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}); cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// receive reads into one buffer, which stays in the processor's cache. Packets are
// copied from there; that is less work than to find room for the largest of packets
// before every one.
func (d *device) receive(frame func([]byte, int)) {
	b := make([]byte, vnetSize+maxFrame+1)
	for {
		n, err := d.file.Read(b)
		switch {
		case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.EINVAL):
			// The interface has been taken down, which is told once, and may be
			// turned on again. Or there was a packet that the header cannot
			// describe.
		case err != nil:
			return
		case n == len(b): // cut
		case !d.vnet:
			frame(b[:n], 0)
		case n > vnetSize:
			frame(b[vnetSize:n], vnetSegment(b))
		}
	}
}

func (d *device) send(parts [][]byte, o offload) bool {
	var store [8][]byte
	all := store[:0]
	h := vnetHeader(o)
	if d.vnet {
		all = append(all, h[:])
	}
	all = append(all, parts...)
	sent := false
	d.raw.Write(func(fd uintptr) bool {
		_, err := unix.Writev(int(fd), all)
		if err == unix.ENETDOWN { // possibly an old one, which is told once
			_, err = unix.Writev(int(fd), all)
		}
		sent = err == nil
		return true
	})
	return sent
}

func (d *device) offloads() bool { return d.vnet }
func (d *device) close()         { d.file.Close() }
