package packet

import (
	"os"
	"syscall"
	"unsafe"

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

// receive reads into a room, which the stack may keep if the frame is large. A frame that
// is larger than a room is copied together; with our own MTU there is none.
func (d *device) receive(frame func([]byte, int), r *room) {
	var rest [vnetSize + maxFrame + 1 - roomSize]byte
	for {
		b := r.open()
		n, err := d.read(b, rest[:])
		if n > len(b) {
			b = append(append(make([]byte, 0, n), b...), rest[:n-len(b)]...)
			r.close()
		}
		switch {
		case err == unix.ENETDOWN, err == unix.EINVAL:
			// The interface has been taken down, which is told once, and may be
			// turned on again. Or there was a packet that the header cannot
			// describe.
		case err != nil:
			return
		case n == roomSize+len(rest): // cut
		case !d.vnet:
			frame(b[:n], 0)
		case n > vnetSize:
			frame(b[vnetSize:n], vnetSegment(b))
		}
	}
}

// read waits for a frame. Like package tcp it does not tell Go's scheduler of calls that
// cannot block.
func (d *device) read(b, rest []byte) (n int, err error) {
	into := [2]unix.Iovec{{Base: &b[0]}, {Base: &rest[0]}}
	into[0].SetLen(len(b))
	into[1].SetLen(len(rest))
	var failed unix.Errno
	err = d.raw.Read(func(fd uintptr) bool {
		for {
			var got uintptr
			got, _, failed = unix.RawSyscall(unix.SYS_READV, fd, uintptr(unsafe.Pointer(&into)), uintptr(len(into)))
			if failed != unix.EINTR {
				n = int(got)
				return failed != unix.EAGAIN
			}
		}
	})
	if err == nil && failed != 0 {
		return 0, failed
	}
	return n, err
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
		failed := write(fd, all)
		if failed == unix.ENETDOWN { // possibly an old one, which is told once
			failed = write(fd, all)
		}
		sent = failed == 0
		return true
	})
	return sent
}

// write gives the parts of a frame to the kernel.
func write(fd uintptr, parts [][]byte) unix.Errno {
	var store [8]unix.Iovec
	all := store[:0]
	for _, p := range parts {
		if len(p) > 0 {
			v := unix.Iovec{Base: &p[0]}
			v.SetLen(len(p))
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return unix.EINVAL
	}
	for {
		_, _, failed := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&all[0])), uintptr(len(all)))
		if failed != unix.EINTR {
			return failed
		}
	}
}

func (d *device) offloads() bool { return d.vnet }
func (d *device) close()         { d.file.Close() }
