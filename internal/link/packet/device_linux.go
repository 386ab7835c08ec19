package packet

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A device is the wire over a descriptor that gives and takes a frame per call, with a vnet
// header before it.
type device struct {
	file *os.File
	raw  syscall.RawConn
}

// openDevice takes over a file, with a descriptor that Go's poller waits for, once setup has
// set its options.
func openDevice(f *os.File, setup func(fd int) error) (*device, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.SetNonblock(fd, true), setup(fd)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), f.Name())
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &device{file, raw}, nil
}

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
		case n > vnetSize:
			frame(b[vnetSize:n], vnetSegment(b))
		}
	}
}

func (d *device) send(parts [][]byte, o offload) bool {
	h := vnetHeader(o)
	all := append(make([][]byte, 0, 8), h[:])
	all = append(all, parts...)
	sent := false
	_ = d.raw.Write(func(fd uintptr) bool {
		_, err := unix.Writev(int(fd), all)
		if err == unix.ENETDOWN { // possibly an old one, which is told once
			_, err = unix.Writev(int(fd), all)
		}
		sent = err == nil
		return true
	})
	return sent
}

func (d *device) offloads() bool { return true }
func (d *device) close()         { d.file.Close() }
