package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"
)

// A Door is a supervisor's socket, to which commands of the same user connect.
type Door struct {
	l       net.Listener
	release func()
	once    sync.Once
}

// Listen makes the socket of a place and serves its connections, each in a goroutine, until the
// door is closed. The caller holds the place's lock. Peers that are another user's, in another
// namespace or in a jail are refused.
func Listen(at Place, serve func(net.Conn)) (*Door, error) {
	path, release, err := at.Socket()
	if err != nil {
		return nil, err
	}
	os.Remove(path) // one that a killed supervisor left
	l, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		release()
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	go Accept(l, func(c net.Conn) { go admit(c, serve) })
	return &Door{l: l, release: release}, nil
}

// Close removes the socket. Connections stay.
func (d *Door) Close() error {
	d.once.Do(func() {
		d.l.Close()
		d.release()
	})
	return nil
}

// Accept calls serve with each connection to a listener until that is closed.
func Accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will come back
		default:
			serve(c)
		}
	}
}

// admit serves a connection of somebody who may come in.
func admit(c net.Conn, serve func(net.Conn)) {
	defer c.Close()
	if err := trusted(c.(*net.UnixConn)); err == nil {
		serve(c)
	} else if !errors.Is(err, fs.ErrNotExist) { // it has ended
		fmt.Fprintln(os.Stderr, "coffer: refused a client:", err)
	}
}
