package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Hand gives descriptors to the other side of the control stream, with one byte, by which the
// other side knows what they are for. The
// protocol that is spoken once the machine runs knows nothing of descriptors: not every engine's
// machine shares a kernel with us. An agent that does finds them in the stream, see carrier.
func Hand(conn *net.UnixConn, batch byte, fds []int) error {
	_, _, err := conn.WriteMsgUnix([]byte{batch}, unix.UnixRights(fds...), nil)
	return err
}

// HandBy is Hand until a time. A deadline of the connection's would be one for all who write
// to it, so it is tried again instead: it waits only for an agent that does not read.
func HandBy(end time.Time, conn *net.UnixConn, batch byte, fds []int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var sent error
		if err := raw.Control(func(fd uintptr) {
			sent = unix.Sendmsg(int(fd), []byte{batch}, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}); err != nil {
			return err
		}
		if !errors.Is(sent, unix.EAGAIN) && !errors.Is(sent, unix.EINTR) {
			return sent
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("hand over %d descriptors: %w", len(fds), os.ErrDeadlineExceeded)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Receive takes the n descriptors that the other side hands.
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

// maxHanded is how many descriptors the kernel passes in one message.
const maxHanded = 253

// carrier is the control stream of a machine that runs: the bytes of the protocol, and in
// between, each time with one byte that is not of it, descriptors. The kernel ends a read
// where descriptors were, so that byte is the last that was read.
type carrier struct {
	*net.UnixConn
	oob []byte

	mu  sync.Mutex
	fds map[byte][]int // that came and were not asked for yet, by their batch
}

func newCarrier(c *net.UnixConn) *carrier {
	return &carrier{UnixConn: c, oob: make([]byte, unix.CmsgSpace(4*maxHanded))}
}

func (c *carrier) Read(p []byte) (int, error) {
	for {
		n, got, _, _, err := c.ReadMsgUnix(p, c.oob)
		if got > 0 && n > 0 {
			n--
			c.keep(p[n], c.oob[:got])
		}
		if errors.Is(err, io.EOF) {
			err = io.EOF // as Read has it
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// keep keeps what came until it is asked for.
func (c *carrier) keep(batch byte, oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			if c.fds == nil {
				c.fds = map[byte][]int{}
			}
			c.fds[batch] = append(c.fds[batch], fds...)
		}
	}
}

// take gives out those of a batch, and closes all others: who handed them over did not come to
// say what they are for.
func (c *carrier) take(batch byte) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, fds := range c.fds {
		for _, fd := range fds {
			if other == batch {
				unix.CloseOnExec(fd)
			} else {
				unix.Close(fd)
			}
		}
	}
	fds := c.fds[batch]
	c.fds = nil
	return fds
}
