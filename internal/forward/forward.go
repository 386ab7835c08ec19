// Package forward keeps the ways through the wall that the user made: ports of the host's
// loopback that lead to ports inside, and Unix sockets either way. Nothing else leads in or
// out of them.
//
// What comes from the host is taken before the sandbox boots ([Forwarder.Reserve]), so that a
// port which is taken is an error before anything else happens. Connections wait in the kernel
// until the sandbox stands ([Forwarder.Open]). The sandbox is hostile: it may connect only to
// the sockets that the user named, and the number of its streams is bounded.
package forward

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

const (
	// maxVisits bounds the connections through all openings of a sandbox, and
	// maxVisitsEach those through one. Each may hold a buffer of a megabyte here
	// when its reader stalls. Whoever comes later waits.
	maxVisits     = 256
	maxVisitsEach = 128
	// visitPatience is how long the guest may take to connect. It gives up earlier.
	visitPatience = 20 * time.Second
)

// A Forwarder keeps the openings of one running sandbox.
type Forwarder struct {
	sb      *sandbox.Sandbox
	log     func(audit.Event)
	visitor func(n int)

	session *wire.Session
	// plumbing are ports inside that are coffer's own, and not told to the user.
	plumbing []uint16
	surveys  inquiry
	last     atomic.Pointer[[]wire.Port] // what the guest said last

	changing sync.Mutex // held by whoever changes the forwards
	forwards []*entrance

	sockets []*outlet         // that lead from the host to the inside
	offered map[string]string // those that lead to the host: by path inside
	guests  chan struct{}     // places for the guest's own streams

	places chan struct{} // for connections from the host
	visits sync.WaitGroup
}

// New makes the openings of a sandbox. log writes down what changes; visitor hears of each
// connection from outside, with 1 when it begins and -1 when it ends.
func New(sb *sandbox.Sandbox, log func(audit.Event), visitor func(n int)) *Forwarder {
	return &Forwarder{
		sb: sb, log: log, visitor: visitor, surveys: make(inquiry, 1),
		places: make(chan struct{}, maxVisits), guests: make(chan struct{}, maxGuests),
	}
}

// Hide leaves ports inside that are coffer's own out of what is told to the user.
func (f *Forwarder) Hide(ports ...uint16) { f.plumbing = append(f.plumbing, ports...) }

// An entrance is where programs of the host come in.
type entrance struct {
	host      uint16 // the port, if it is one
	target    wire.Target
	listeners []net.Listener
	places    chan struct{}

	mu     sync.Mutex
	closed chan struct{}
	inside map[net.Conn]bool
}

func newEntrance(t wire.Target, listeners ...net.Listener) *entrance {
	return &entrance{
		target: t, listeners: listeners, places: make(chan struct{}, maxVisitsEach),
		closed: make(chan struct{}), inside: map[net.Conn]bool{},
	}
}

// close ends it, with every connection that came in by it.
func (e *entrance) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.closed:
		return
	default:
	}
	close(e.closed)
	for _, l := range e.listeners {
		l.Close()
	}
	for c := range e.inside {
		wire.Reset(c)
	}
}

// note adds or forgets a connection. It is false for one that comes too late.
func (e *entrance) note(c net.Conn, here bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !here {
		delete(e.inside, c)
		return true
	}
	select {
	case <-e.closed:
		return false
	default:
	}
	e.inside[c] = true
	return true
}

// Reserve takes the ports and sockets of the host, before the sandbox boots.
func (f *Forwarder) Reserve() error {
	if err := f.reserveForwards(); err != nil {
		return err
	}
	return f.reserveSockets()
}

// Open accepts connections. The sandbox stands, and nothing runs in it yet.
func (f *Forwarder) Open(session *wire.Session) error {
	f.session = session
	if err := f.offerSockets(); err != nil {
		return err
	}
	if err := f.offerHostPorts(); err != nil {
		return err
	}
	for _, e := range f.forwards {
		f.admit(e)
	}
	for _, o := range f.sockets {
		f.admit(o.entrance)
	}
	return nil
}

// Close gives everything back. The sandbox is dead.
func (f *Forwarder) Close() {
	f.changing.Lock()
	defer f.changing.Unlock()
	for _, e := range f.forwards {
		e.close()
	}
	f.forwards = nil
	for _, out := range f.sockets {
		out.remove()
	}
	f.settleSockets()
	f.visits.Wait()
}

// admit starts to accept connections.
func (f *Forwarder) admit(e *entrance) {
	for _, l := range e.listeners {
		f.visits.Go(func() { f.accept(e, l) })
	}
}

// accept lets in who comes, and lets wait who finds no place.
func (f *Forwarder) accept(e *entrance, l net.Listener) {
	wire.Accept(l, func(c net.Conn) {
		for _, places := range []chan struct{}{e.places, f.places} {
			select {
			case places <- struct{}{}:
			case <-e.closed:
				wire.Reset(c)
				return
			}
		}
		f.visits.Go(func() {
			defer func() { <-e.places; <-f.places }()
			f.visit(e, c)
		})
	})
}

// visit carries one connection. What the guest does with the stream is its own harm:
// the place stays taken until the stream has ended at both ends.
func (f *Forwarder) visit(e *entrance, c net.Conn) {
	f.visitor(1)
	defer f.visitor(-1)
	if !e.note(c, true) {
		wire.Reset(c)
		return
	}
	defer e.note(c, false)
	stream, err := wire.DialTarget(f.session, e.target, visitPatience)
	if err != nil {
		wire.Reset(c)
		wire.HangUp(stream)
		return
	}
	_ = wire.Relay(c, stream)
}
