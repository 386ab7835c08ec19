package wire

import (
	"io"
	"net"
)

// Dial is an Opener that connects to a Unix socket for every stream.
type Dial string

// Open connects.
func (d Dial) Open() (io.ReadWriteCloser, error) { return d.Connect() }

// Connect connects. A supervisor that takes nobody any more is an error, and not waited
// for.
func (d Dial) Connect() (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: string(d), Net: "unix"})
}
