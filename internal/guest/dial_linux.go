package guest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// dialPatience bounds how long a program that listens may take to accept.
const dialPatience = 5 * time.Second

// dial connects a stream of the host with what listens inside.
func (a *agent) dial(s net.Conn, t wire.Target) {
	conn, err := dialInside(t)
	if err != nil {
		refuse(s, err)
		return
	}
	if wire.WriteMessage(s, wire.Event{Connected: true}) != nil {
		conn.Close()
		wire.HangUp(s)
		return
	}
	_ = wire.Relay(conn, s)
}

// dialInside connects to a port of the loopback, or to a socket.
func dialInside(t wire.Target) (net.Conn, error) {
	d := net.Dialer{Timeout: dialPatience}
	if t.Path != "" {
		if !filepath.IsAbs(t.Path) { // nor a name without a file, which begins with @
			return nil, fmt.Errorf("%q is not an absolute path", t.Path)
		}
		conn, err := d.Dial("unix", t.Path)
		if err != nil {
			return nil, fmt.Errorf("nobody listens at %s inside: %w", t.Path, plain(err))
		}
		return conn, nil
	}
	port := strconv.Itoa(int(t.Port))
	conn, err := d.Dial("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		if six, err6 := d.Dial("tcp6", net.JoinHostPort("::1", port)); err6 == nil {
			return six, nil
		}
		return nil, fmt.Errorf("nobody listens on port %s inside: %w", port, plain(err))
	}
	return conn, nil
}

// plain is the kernel's word alone.
func plain(err error) error {
	var no unix.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}

// refuse answers no and ends a stream.
func refuse(s net.Conn, err error) {
	_ = wire.WriteMessage(s, wire.Event{Failure: &wire.Failure{Code: 125, Message: err.Error()}})
	wire.HangUp(s)
}

// maxOffered is how many connections to offered sockets may be open at once. Behind
// each the host holds a buffer, and anybody inside can open them.
const maxOffered = 64

// listen offers a socket inside. For each connection to it a stream is opened to the
// host, which knows where it leads and may refuse.
func (a *agent) listen(s net.Conn, path string) {
	l, err := a.offer(path)
	if err != nil {
		refuse(s, err)
		return
	}
	_ = wire.WriteMessage(s, wire.Event{Connected: true})
	wire.HangUp(s)
	acceptAll(l, a.offered, func(conn net.Conn) { a.lead(conn, path) })
}

// acceptAll serves all connections to a listener, each while it has a slot.
func acceptAll(l net.Listener, slots chan struct{}, serve func(net.Conn)) {
	wire.Accept(l, func(conn net.Conn) {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			serve(conn)
		}()
	})
}

// lead carries a connection to the host.
func (a *agent) lead(conn net.Conn, path string) {
	s, err := wire.DialTarget(a.session, wire.Target{Path: path}, patience)
	if err != nil {
		conn.Close()
		wire.HangUp(s)
		return
	}
	_ = wire.Relay(conn, s)
}

// offer makes the socket and what leads to it. The path is the user's, but what is on
// it may come from an earlier session: whatever it leads to is inside, and nothing is
// removed but a socket.
func (a *agent) offer(path string) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) {
		return nil, fmt.Errorf("offer the socket %s inside: %w", path, plain(err))
	}
	if !filepath.IsAbs(path) {
		return fail(errors.New("not an absolute path"))
	}
	if err := a.makeDirs(filepath.Dir(path)); err != nil {
		return fail(err)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fail(err)
	case info.Mode()&fs.ModeSocket == 0:
		return fail(errors.New("there is something else in its place"))
	default:
		if err := os.Remove(path); err != nil {
			return fail(err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fail(err)
	}
	// Whatever id a program inside has, it may ask, as with the agent's own.
	if err := errors.Join(os.Lchown(path, a.boot.UID, a.boot.GID), os.Chmod(path, 0o666)); err != nil {
		l.Close()
		return fail(err)
	}
	return l, nil
}

// makeDirs makes the directories that are missing, and gives them to the user.
func (a *agent) makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := a.makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Lchown(dir, a.boot.UID, a.boot.GID)
}

// maxHostPort is how many connections to one port of localhost may lead to the host at once.
const maxHostPort = 256

// openHostPort listens on a port of both loopback addresses, and connects each connection with the
// same port of link.HostName. So the gateway decides about it, as if the program had used that name.
func (a *agent) openHostPort(s net.Conn, port uint16) {
	var listeners []net.Listener
	for _, at := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		l, err := net.Listen("tcp", netip.AddrPortFrom(at, port).String())
		switch {
		case err == nil:
			listeners = append(listeners, l)
		case at.Is4(): // a kernel may have no IPv6
			refuse(s, fmt.Errorf("listen on port %d of localhost inside: %w", port, plain(err)))
			return
		}
	}
	_ = wire.WriteMessage(s, wire.Event{Connected: true})
	wire.HangUp(s)
	slots := make(chan struct{}, maxHostPort)
	for _, l := range listeners {
		go acceptAll(l, slots, func(in net.Conn) {
			out, err := net.DialTimeout("tcp", netip.AddrPortFrom(link.Host4, port).String(), dialPatience)
			if err != nil {
				wire.Reset(in)
				return
			}
			join(in.(*net.TCPConn), out.(*net.TCPConn))
		})
	}
}

// join carries bytes both ways until both ends have closed. A connection that breaks breaks the other.
func join(a, b *net.TCPConn) {
	carry := func(to, from *net.TCPConn) {
		_, err := io.Copy(to, from)
		if err = errors.Join(err, to.CloseWrite()); err != nil {
			wire.Reset(a)
			wire.Reset(b)
		}
	}
	var one sync.WaitGroup
	one.Go(func() { carry(a, b) })
	carry(b, a)
	one.Wait()
	a.Close()
	b.Close()
}
