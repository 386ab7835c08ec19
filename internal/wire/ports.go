package wire

import (
	"fmt"
	"io"
)

// A Target is what a stream is to be connected with. To the guest, Port is a port of
// the sandbox's loopback and Path a Unix socket inside; with OpListen, Port leads to the
// same port of link.HostName, by the sandbox's network. To the host, Path is a socket
// that the guest was told to offer with OpListen; the host alone knows where it leads.
type Target struct {
	Port uint16 `json:"port,omitempty"`
	Path string `json:"path,omitempty"`
}

func (t Target) String() string {
	if t.Path != "" {
		return t.Path
	}
	return fmt.Sprintf("port %d", t.Port)
}

// A Survey asks for the ports that programs inside listen on.
type Survey struct {
	// Except names ports that belong to coffer itself.
	Except []uint16 `json:"except,omitempty"`
}

// MaxPorts is how many ports a survey tells at most.
const MaxPorts = 200

// Ports are the ways into a sandbox: those that lead inside, and what listens there.
type Ports struct {
	Forwards  []Forward `json:"forwards,omitempty"` // told by the supervisor only
	Listening []Port    `json:"listening,omitempty"`
}

// A Port is one that a program inside listens on.
type Port struct {
	Port    uint16 `json:"port"`
	Address string `json:"address"`           // the one it listens on, perhaps 0.0.0.0 or ::
	Program string `json:"program,omitempty"` // as the kernel calls it, if that could be found out
}

// A Forward is a port of the host's loopback that leads to one inside.
type Forward struct {
	Host   uint16 `json:"host"` // 0 if one is still to be chosen
	Inside uint16 `json:"inside"`
	// Any says that the user does not mind which one Host is.
	Any bool `json:"any,omitempty"`
}

// Forwarding changes the forwards: first those of Clear go, then those of Add come,
// all of them or none. The answer has those that were asked for in Add, with the ports
// that were chosen.
type Forwarding struct {
	Add []Forward `json:"add,omitempty"`
	// Clear names forwards by the host's port or, where that is 0, by the one inside.
	Clear    []Forward `json:"clear,omitempty"`
	ClearAll bool      `json:"clear_all,omitempty"`
}

// Answer waits for the answer to a request that has been sent: one message. What
// says no is a [*Failure].
func Answer(c io.Reader) (Event, error) {
	var e Event
	err := ReadMessage(c, MaxReply, &e)
	if err == nil && e.Failure != nil {
		err = e.Failure
	}
	return e, err
}
