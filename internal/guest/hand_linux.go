package guest

import (
	"fmt"
	"net"
	"os"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/sys/unix"
)

// Hand sends descriptors over the control stream, with one byte, before the protocol of package
// wire begins. That protocol has no descriptors: a virtual machine shares no kernel with the host.
func Hand(conn *net.UnixConn, fds []int) error {
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
	return err
}

// HandFiles hands files, if there are any, and closes them here.
func HandFiles(conn *net.UnixConn, files []*os.File) error {
	var fds []int
	for _, f := range files {
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	if len(fds) == 0 {
		return nil
	}
	return Hand(conn, fds)
}

// maxSockets is more than any kind of link has.
const maxSockets = 16

// ReceiveLink opens the link that the first process has made the inner half of, nil if it has
// none. Call it before any program runs: the first process can still be trusted then.
func ReceiveLink(conn *net.UnixConn, r Ready) (link.Link, error) {
	if r.Sockets < 0 || r.Sockets > maxSockets {
		return nil, fmt.Errorf("%d sockets are too many", r.Sockets)
	}
	fds, err := Receive(conn, r.Sockets)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), r.Link))
	}
	switch r.Link {
	case "":
		return nil, nil
	case KernelLink:
		return link.Open(files)
	case PacketLink:
		if len(files) != 1 {
			return nil, fmt.Errorf("%d sockets for a link of packets", len(files))
		}
		return link.OpenPackets(files[0])
	}
	return nil, fmt.Errorf("there is no link of kind %q", r.Link)
}

// Receive takes n descriptors that the other side sent with [Hand].
func Receive(conn *net.UnixConn, n int) ([]int, error) {
	if n == 0 {
		return nil, nil
	}
	oob := make([]byte, unix.CmsgSpace(4*n))
	_, got, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:got])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages instead of one", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err == nil && len(fds) != n {
		err = fmt.Errorf("got %d, want %d", len(fds), n)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds, err
}
