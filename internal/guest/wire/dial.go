package wire

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Dial is an Opener that connects to a Unix socket for every stream.
type Dial string

// Open connects.
func (d Dial) Open() (io.ReadWriteCloser, error) { return d.Connect() }

// Connect connects. A supervisor that takes nobody any more is an error, and not waited
// for.
func (d Dial) Connect() (*Socket, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: string(d)}); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "connect", Path: string(d), Err: err}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return NewSocket(fd), nil
}

// A Socket is a connection on which reading blocks the thread. A command has one of
// them and nothing else to do: the network package, and the poller behind it, would cost
// it threads that hand the work to each other.
type Socket struct{ *os.File }

// NewSocket is a connection that there is.
func NewSocket(fd int) *Socket { return &Socket{os.NewFile(uintptr(fd), "supervisor")} }

// Heard is a connection of which somebody has read something already.
func Heard(s *Socket, said []byte) io.ReadWriteCloser {
	if len(said) == 0 {
		return s
	}
	return &heard{Socket: s, said: said}
}

type heard struct {
	*Socket
	said []byte
}

func (h *heard) Read(p []byte) (int, error) {
	if len(h.said) == 0 {
		return h.Socket.Read(p)
	}
	n := copy(p, h.said)
	h.said = h.said[n:]
	return n, nil
}

// Close ends the connection, also for who is reading from it this moment.
func (s *Socket) Close() error {
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	return s.File.Close()
}

// CloseWrite says that nothing more is sent.
func (s *Socket) CloseWrite() {
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}

// Timeout bounds how long each read and write may take.
func (s *Socket) Timeout(d time.Duration) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	limit := unix.NsecToTimeval(d.Nanoseconds())
	e := raw.Control(func(fd uintptr) {
		if err = unix.SetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err == nil {
			err = unix.SetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
		}
	})
	if e != nil {
		return e
	}
	return err
}
