package guest

import (
	"net"
	"sync"
	"time"
)

// A meeting brings an exec and its data streams together. They are opened one after
// another but may arrive in any order.
type meeting struct {
	mu    sync.Mutex
	rooms map[string]*room
}

type room struct {
	streams chan arrival
	expires *time.Timer
}

type arrival struct {
	fd   int
	conn net.Conn
}

// patience is how long one waits for the other; maxRooms how many may wait.
const (
	patience = 20 * time.Second
	maxRooms = 1024
)

func newMeeting() *meeting { return &meeting{rooms: map[string]*room{}} }

// room returns the place where those with this token meet, nil if the house is full.
func (m *meeting) room(token string) *room {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rooms[token]
	if r == nil && len(m.rooms) < maxRooms {
		r = &room{streams: make(chan arrival, 3)}
		r.expires = time.AfterFunc(patience, func() { m.leave(token) })
		m.rooms[token] = r
	}
	return r
}

func (m *meeting) leave(token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rooms[token]; r != nil {
		r.expires.Stop()
		delete(m.rooms, token)
		for {
			select {
			case a := <-r.streams:
				a.conn.Close()
				continue
			default:
			}
			return
		}
	}
}

// bring delivers a data stream.
func (m *meeting) bring(token string, fd int, conn net.Conn) {
	r := m.room(token)
	if r == nil {
		conn.Close()
		return
	}
	select {
	case r.streams <- arrival{fd, conn}:
	default:
		conn.Close() // more streams than descriptors
	}
}

// gather waits for n streams and returns them by descriptor, or nil.
func (m *meeting) gather(token string, n int) map[int]net.Conn {
	r := m.room(token)
	if r == nil {
		return nil
	}
	defer m.leave(token)
	late := time.After(patience)
	got := map[int]net.Conn{}
	for len(got) < n {
		select {
		case a := <-r.streams:
			if a.fd < 0 || a.fd >= n || got[a.fd] != nil {
				a.conn.Close()
				continue
			}
			got[a.fd] = a.conn
		case <-late:
			for _, c := range got {
				c.Close()
			}
			return nil
		}
	}
	return got
}
