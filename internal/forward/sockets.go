package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// maxGuests bounds the streams that the guest opens to us. yamux keeps 256 more waiting
// at our door and turns away the rest.
const maxGuests = 64

// maxFirst bounds the first message of such a stream.
const maxFirst = 4 << 10

// offerSockets has the guest make the sockets that lead to the host, and starts to
// serve them.
func (f *Forwarder) offerSockets() error {
	f.offered = map[string]string{}
	for _, k := range f.sb.Sockets {
		if k.Way != sandbox.SocketIn {
			continue
		}
		f.offered[k.Inside] = k.Host
		if err := f.listenInside(wire.Target{Path: k.Inside}); err != nil {
			return ui.Hint(err, "choose another path inside, such as --socket-in %s:/run/%s", k.Host, filepath.Base(k.Host))
		}
	}
	if len(f.offered) > 0 {
		f.visits.Go(f.serveGuest)
	}
	return nil
}

// offerHostPorts has the guest listen on localhost where a port of the host is open to programs.
func (f *Forwarder) offerHostPorts() error {
	for _, p := range f.sb.Network.HostPorts {
		if err := f.listenInside(wire.Target{Port: p.Inside}); err != nil {
			return ui.Hint(err, "give it another number inside: --host-port INSIDE:%d", p.Outside)
		}
		f.Hide(p.Inside)
	}
	return nil
}

// listenInside has the guest listen.
func (f *Forwarder) listenInside(t wire.Target) error {
	_, err := wire.Call(f.session, wire.Request{Op: wire.OpListen, Listen: &t}, visitPatience)
	return err
}

// serveGuest takes the streams that the guest opens. When all places are taken it takes
// none, and the guest waits.
func (f *Forwarder) serveGuest() {
	for {
		f.guests <- struct{}{}
		c, err := f.session.Accept()
		if err != nil {
			return
		}
		f.visits.Go(func() {
			defer func() { <-f.guests }()
			f.guest(c)
		})
	}
}

// guest serves one stream of the guest, a stranger: it may name one of the sockets that
// the user named, and gets connected with what the user said. All else is hung up on.
func (f *Forwarder) guest(c net.Conn) {
	var r wire.Request
	c.SetReadDeadline(time.Now().Add(visitPatience))
	err := wire.ReadMessage(c, maxFirst, &r)
	c.SetReadDeadline(time.Time{})
	host := ""
	if err == nil && r.Op == wire.OpDial && r.Dial != nil {
		host = f.offered[r.Dial.Path]
	}
	if host == "" {
		wire.HangUp(c)
		return
	}
	conn, err := dialSocket(host, visitPatience)
	if err != nil {
		// Why is not for the inside to know.
		_ = wire.WriteMessage(c, wire.Event{Failure: &wire.Failure{Code: 125, Message: "nobody listens there"}})
		wire.HangUp(c)
		return
	}
	if wire.WriteMessage(c, wire.Event{Connected: true}) != nil {
		conn.Close()
		wire.HangUp(c)
		return
	}
	// When the session ends while the host's program does not read, nothing else
	// would wake the relay.
	ended := make(chan struct{})
	defer close(ended)
	f.visits.Go(func() {
		select {
		case <-f.session.CloseChan():
			conn.Close()
		case <-ended:
		}
	})
	_ = wire.Relay(conn, c)
}

// An outlet is a socket of the host that leads inside. Its file belongs to us as long
// as it is the one that we made.
type outlet struct {
	*entrance
	file made
}

// made is a file that we made, so that we remove no other.
type made struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

func (o *outlet) remove() {
	o.close()
	o.file.remove()
}

func (m made) remove() {
	if is, err := identity(m.Path); err == nil && is == m {
		_ = os.Remove(m.Path)
	}
}

// identity is the socket that a path leads to.
func identity(path string) (made, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return made{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeSocket == 0 {
		return made{}, errors.New("not a socket")
	}
	return made{Path: path, Dev: uint64(st.Dev), Ino: uint64(st.Ino)}, nil
}

// reserveSockets makes the sockets of the host that lead inside.
func (f *Forwarder) reserveSockets() error {
	Forget(f.sb.Dir(), f.sb.Record) // of a supervisor that was killed
	for _, k := range f.sb.Sockets {
		if k.Way != sandbox.SocketOut {
			continue
		}
		if len(f.sockets) == 0 {
			if err := f.sb.Owe(); err != nil {
				return err
			}
		}
		if err := f.makeSocket(k); err != nil {
			return fmt.Errorf("make the socket %s: %w", k.Host, err)
		}
	}
	return nil
}

// makeSocket makes a socket without a moment in which others could connect to it, in
// which it could replace a file, or in which a crash would leave it behind unknown: it
// is bound in a directory of our own, noted, and then given its name.
func (f *Forwarder) makeSocket(k sandbox.Socket) error {
	dir := workshop(k, f.sb.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer clearWorkshop(dir)
	draft := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: draft, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(draft, 0o600); err == nil {
		var file made
		if file, err = identity(draft); err == nil {
			file.Path = k.Host
			out := &outlet{newEntrance(wire.Target{Path: k.Inside}, l), file}
			f.sockets = append(f.sockets, out)
			err = f.noteSockets()
		}
	}
	if err == nil {
		err = os.Link(draft, k.Host)
	}
	if err != nil {
		l.Close()
	}
	if errors.Is(err, fs.ErrExist) {
		return ui.Error("there is a file of this name", "remove it, or choose another path for the socket")
	}
	return err
}

// workshop is where a socket is made: next to its place, since a name can be given only
// within a file system.
func workshop(k sandbox.Socket, id string) string {
	return filepath.Join(filepath.Dir(k.Host), ".coffer-"+id)
}

// clearWorkshop removes it, if it is ours and not something that another user of the
// directory, say /tmp, has put in its place.
func clearWorkshop(dir string) {
	info, err := os.Lstat(dir)
	if err != nil {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.IsDir() && int(st.Uid) == os.Getuid() {
		_ = os.Remove(filepath.Join(dir, "s"))
		_ = os.Remove(dir)
	}
}

// socketsName is the file in a sandbox's folder that lists the sockets made outside.
const socketsName = "sockets.json"

// noteSockets writes down what we made, so that it can be removed should we be killed.
func (f *Forwarder) noteSockets() error {
	var all []made
	for _, o := range f.sockets {
		all = append(all, o.file)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return safepath.File{Path: filepath.Join(f.sb.Dir(), socketsName), Alone: true}.Write(b)
}

// settleSockets forgets what is no more.
func (f *Forwarder) settleSockets() {
	if len(f.sockets) > 0 {
		f.sockets = nil
		_ = os.Remove(filepath.Join(f.sb.Dir(), socketsName))
	}
}

// Forget removes the sockets that a killed supervisor left: those that it wrote
// down, if they are still the same and nobody listens, and where it made them. (An
// inode's number may soon be another socket's.)
func Forget(folder string, r sandbox.Record) {
	for _, k := range r.Sockets {
		if k.Way == sandbox.SocketOut {
			clearWorkshop(workshop(k, r.ID))
		}
	}
	path := filepath.Join(folder, socketsName)
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var all []made
	_ = json.Unmarshal(b, &all)
	for _, m := range all {
		c, err := net.Dial("unix", m.Path)
		if err == nil {
			c.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			m.remove()
		}
	}
	_ = os.Remove(path)
}
