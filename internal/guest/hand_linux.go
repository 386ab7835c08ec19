package guest

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Hand sends descriptors over the control stream, with one byte, before the protocol of package
// wire begins. That protocol has no descriptors: a virtual machine shares no kernel with the host.
func Hand(conn *net.UnixConn, fds []int) error {
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
	return err
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
