package forward

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// A guest is asked about a connection, one at a time; if it does not answer, none is closed.
func TestClosedInside(t *testing.T) {
	f, guest := newForwarder(t, sandbox.Record{})
	from, to := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	var asked atomic.Int32
	var says atomic.Pointer[bool]
	silent := make(chan struct{})
	defer close(silent)
	serveAll(guest, func(c net.Conn, r wire.Request) {
		asked.Add(1)
		if r.Op != wire.OpPorts || r.Ports == nil || r.Ports.Connection == nil || *r.Ports.Connection != (wire.Connection{From: from.String(), To: to.String()}) {
			t.Errorf("asked for %+v", r)
		}
		closed := says.Load()
		if closed == nil {
			<-silent
			return
		}
		wire.WriteMessage(c, wire.Event{Ports: &wire.Ports{Closed: *closed}})
		wire.HangUp(c)
	})
	// Who has asked may not have hung up yet.
	free := func() bool { return len(f.closings) == 0 }
	yes, no := true, false
	says.Store(&yes)
	eventually(t, "it is closed", func() bool { return f.ClosedInside(from, to) })
	eventually(t, "nobody asks", free)
	says.Store(&no)
	if f.ClosedInside(from, to) {
		t.Error("it is closed, though the guest says no")
	}
	eventually(t, "nobody asks", free)
	says.Store(nil)
	before := asked.Load()
	if f.ClosedInside(from, to) {
		t.Error("it is closed, though the guest says nothing")
	}
	eventually(t, "the guest is asked", func() bool { return asked.Load() > before })
	if f.ClosedInside(from, to) || free() || asked.Load() != before+1 {
		t.Errorf("asked %d times before there was an answer", asked.Load()-before)
	}
}
