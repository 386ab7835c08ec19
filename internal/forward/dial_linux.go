package forward

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// dialSocket connects to a socket of the host by a path without links. Somebody may have
// put one there since the user named it.
func dialSocket(path string, patience time.Duration) (net.Conn, error) {
	top, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	socket, err := safepath.Open(top, path[1:], unix.O_PATH|unix.O_NOFOLLOW, safepath.NoLinks)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer socket.Close()
	if info, err := socket.Stat(); err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is not a socket", path)
	}
	d := net.Dialer{Timeout: patience}
	return d.Dial("unix", fmt.Sprintf("/proc/self/fd/%d", socket.Fd()))
}
