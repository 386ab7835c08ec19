package tcp

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanSplice says that there are pipes.
const CanSplice = true

// pipeSize is how much a pipe holds, if the kernel agrees.
const pipeSize = 1 << 20

// Pipe moves bytes from one connection to another without looking at them: the kernel
// keeps them.
type Pipe struct{ out, in int }

// NewPipe makes a pipe, which takes two descriptors.
func NewPipe() (*Pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	_, _ = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, pipeSize)
	return &Pipe{ends[0], ends[1]}, nil
}

// Fill takes up to most bytes from a connection, as soon as there are some. The pipe must
// be empty. The end is io.EOF.
func (p *Pipe) Fill(c *Conn, most int) (n int, err error) {
	var failed syscall.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		n, failed = again(unix.SYS_SPLICE, fd, 0, uintptr(p.in), 0, uintptr(min(most, pipeSize)), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, waited(err)
	case failed != 0:
		return 0, os.NewSyscallError("splice", failed)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Drain gives the n bytes that are in the pipe to a connection, and says how many it took.
func (p *Pipe) Drain(c *Conn, n int) (sent int, err error) {
	var failed syscall.Errno
	err = c.raw.Write(func(fd uintptr) bool {
		for sent < n {
			var moved int
			moved, failed = again(unix.SYS_SPLICE, uintptr(p.out), 0, fd, 0, uintptr(n-sent), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			if failed != 0 {
				return failed != unix.EAGAIN
			}
			if moved == 0 {
				failed = unix.EPIPE
				return true
			}
			sent += moved
		}
		return true
	})
	switch {
	case err != nil:
		return sent, waited(err)
	case failed != 0:
		return sent, os.NewSyscallError("splice", failed)
	}
	return sent, nil
}

func (p *Pipe) Close() {
	unix.Close(p.out)
	unix.Close(p.in)
}
