package supervisor

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// Openings are the ways through the wall that the user made: ports of the host's
// loopback that lead to ports inside, and Unix sockets either way. Nothing else leads
// in or out of them. What comes from the host is taken before the sandbox boots, so
// that a port which is not to be had is said first; it waits in the kernel until the
// sandbox stands.

const (
	// maxVisits bounds the connections through all openings of a sandbox, and
	// maxVisitsEach those through one. Each may hold a buffer of a megabyte here
	// when its reader stalls. Whoever comes later waits.
	maxVisits     = 256
	maxVisitsEach = 128
	// visitPatience is how long the guest may take to connect. It gives up earlier.
	visitPatience = 20 * time.Second
	// lastWords is how long a sandbox that ends waits for connections that end too.
	lastWords = 500 * time.Millisecond
)

type openings struct {
	// plumbing are ports inside that are coffer's own, and not told to the user.
	plumbing []uint16
	survey   survey
	asking   sync.Mutex // held while the guest is asked about a connection

	changing sync.Mutex // held by whoever changes the forwards
	forwards []*entrance

	sockets []*outlet         // that lead from the host to the inside
	offered map[string]string // those that lead to the host: by path inside
	guests  chan struct{}     // places for the guest's own streams

	once   sync.Once
	places chan struct{} // for connections from the host
	visits sync.WaitGroup
}

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

// reserveOpenings takes the ports and sockets of the host, before the sandbox boots.
func (s *Supervisor) reserveOpenings() error {
	if err := s.reserveForwards(); err != nil {
		return err
	}
	return s.reserveSockets()
}

// openOpenings lets through who waits. The sandbox stands, and nothing runs in it yet.
func (s *Supervisor) openOpenings() error {
	if err := s.offerSockets(); err != nil {
		return err
	}
	if err := s.offerHostPorts(); err != nil {
		return err
	}
	for _, e := range s.openings.forwards {
		s.admit(e)
	}
	for _, o := range s.openings.sockets {
		s.admit(o.entrance)
	}
	return nil
}

// closeOpenings gives everything back. The sandbox is dead.
func (s *Supervisor) closeOpenings() {
	o := &s.openings
	o.changing.Lock()
	defer o.changing.Unlock()
	for _, e := range o.forwards {
		e.close()
	}
	o.forwards = nil
	for _, out := range o.sockets {
		out.remove()
	}
	s.settleSockets()
	o.visits.Wait()
}

// admit starts to accept connections.
func (s *Supervisor) admit(e *entrance) {
	s.openings.once.Do(func() { s.openings.places = make(chan struct{}, maxVisits) })
	for _, l := range e.listeners {
		s.openings.visits.Go(func() { s.accept(e, l) })
	}
}

// accept lets in who comes, and lets wait who finds no place.
func (s *Supervisor) accept(e *entrance, l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will come back
			continue
		}
		for _, places := range []chan struct{}{e.places, s.openings.places} {
			select {
			case places <- struct{}{}:
			case <-e.closed:
				wire.Reset(c)
				return
			}
		}
		s.openings.visits.Go(func() {
			defer func() { <-e.places; <-s.openings.places }()
			s.visit(e, c)
		})
	}
}

// visit carries one connection. What the guest does with the stream is its own harm:
// the place stays taken until the stream has ended at both ends.
func (s *Supervisor) visit(e *entrance, c net.Conn) {
	s.visitors(1)
	defer s.visitors(-1)
	if !e.note(c, true) {
		wire.Reset(c)
		return
	}
	defer e.note(c, false)
	stream, err := wire.DialTarget(s.session, e.target, visitPatience)
	if err != nil {
		wire.Reset(c)
		wire.HangUp(stream)
		return
	}
	_ = wire.Relay(c, stream)
}

// visitors counts connections from outside: a sandbox that is used by somebody is not
// idle. When the last leaves, the idle time starts anew.
func (s *Supervisor) visitors(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits += n
	switch {
	case s.visits > 0:
	case s.idle != nil:
		// The one program that the sandbox is there for may not have come yet.
		s.idle.Reset(max(s.idleTime, firstUse))
	case s.late:
		s.late = false
		s.rest()
	}
	if s.visits == 0 && s.left != nil {
		close(s.left)
		s.left = nil
	}
}

// LetFinish waits a moment for connections from outside to end, when the program that
// served them has. Its last answer may still be on the way.
func (s *Supervisor) LetFinish() {
	s.mu.Lock()
	if s.visits == 0 {
		s.mu.Unlock()
		return
	}
	if s.left == nil {
		s.left = make(chan struct{})
	}
	left := s.left
	s.mu.Unlock()
	select {
	case <-left:
	case <-s.instance.Done():
	case <-time.After(lastWords):
	}
}
