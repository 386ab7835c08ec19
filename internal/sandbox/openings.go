package sandbox

import (
	"fmt"
	"path/filepath"
)

// A Forward is a port of the host's loopback that leads to a port inside.
type Forward struct {
	Host   uint16 `json:"host,omitempty"` // 0 before one was chosen, with Any
	Inside uint16 `json:"inside"`
	// Any says that the user does not mind which port of the host it is.
	Any bool `json:"any,omitempty"`
}

// The ways of a socket.
const (
	SocketIn  = "in"  // programs inside reach a socket of the host
	SocketOut = "out" // programs of the host reach a socket inside
)

// A Socket is a Unix socket that leads through the wall.
type Socket struct {
	Way    string `json:"way"`
	Host   string `json:"host"`   // its path on the host
	Inside string `json:"inside"` // its path inside
}

// Bounds on what leads through the wall.
const (
	MaxForwards = 64
	MaxSockets  = 16
)

func (r *Record) checkForwards() error {
	all := r.Forwards
	if len(all) > MaxForwards {
		return fmt.Errorf("%d forwards are more than the %d there may be", len(all), MaxForwards)
	}
	seen := map[uint16]bool{}
	for _, f := range all {
		switch {
		case f.Inside == 0:
			return fmt.Errorf("a forward leads to a port, not to 0")
		case f.Host == 0 && !f.Any:
			return fmt.Errorf("a forward needs a port of the host, not 0")
		case f.Host != 0 && seen[f.Host]:
			return fmt.Errorf("port %d of the host cannot lead to two ports inside", f.Host)
		}
		seen[f.Host] = true
	}
	return nil
}

func (r *Record) checkSockets() error {
	all := r.Sockets
	if len(all) > MaxSockets {
		return fmt.Errorf("%d sockets are more than the %d there may be", len(all), MaxSockets)
	}
	seen := map[string]bool{}
	for _, s := range all {
		if s.Way != SocketIn && s.Way != SocketOut {
			return fmt.Errorf("the way of a socket, %q, is none of in, out", s.Way)
		}
		for _, path := range []string{s.Host, s.Inside} {
			switch {
			case !filepath.IsAbs(path) || filepath.Clean(path) != path:
				return fmt.Errorf("socket %q is not a clean absolute path", path)
			case len(path) > maxSocketPath:
				return fmt.Errorf("socket %q has a path of %d bytes, and %d is the most", path, len(path), maxSocketPath)
			}
		}
		// Where a socket is made, there can be one only.
		made := "inside " + s.Inside
		if s.Way == SocketOut {
			made = "host " + s.Host
		}
		if seen[made] {
			return fmt.Errorf("there cannot be two sockets at %s", made)
		}
		seen[made] = true
	}
	return nil
}
