package supervisor

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/engine"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// mortal is a machine of which only the end is of interest.
type mortal struct {
	engine.Instance
	killed bool
}

func (m *mortal) Kill() { m.killed = true }

// A guest that says that it did not show a repository has not, and life goes on. One that says
// nothing may have shown it, and nobody would hide what appears there: that ends the sandbox.
func TestUnveil(t *testing.T) {
	defer func(was time.Duration) { patienceShow = was }(patienceShow)
	for _, c := range []struct {
		name   string
		answer *wire.Event
		killed bool
	}{
		{"shown", &wire.Event{Done: &wire.Done{}}, false},
		{"refused", &wire.Event{Done: &wire.Done{Error: "its place was moved"}}, false},
		{"nonsense", &wire.Event{}, true},
		{"silence", nil, true},
	} {
		if patienceShow = time.Minute; c.answer == nil {
			patienceShow = time.Millisecond
		}
		near, far := net.Pipe()
		host, err := wire.NewClient(near)
		if err != nil {
			t.Fatal(err)
		}
		guest, err := wire.NewServer(far)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				stream, err := guest.Accept()
				if err != nil {
					return
				}
				var asked wire.Request
				if c.answer != nil && wire.ReadMessage(stream, wire.MaxRequest, &asked) == nil {
					_ = wire.WriteMessage(stream, *c.answer)
					stream.Close()
				}
			}
		}()
		machine := &mortal{}
		s := &Supervisor{session: host, instance: machine}
		err = s.unveil(&commits{name: "lib", view: &rootfs.Late{}})
		if (err == nil) != (c.name == "shown") || machine.killed != c.killed || (s.why != "") != c.killed {
			t.Errorf("%s: %v, killed %v because of %q", c.name, err, machine.killed, s.why)
		}
		if c.killed && !strings.Contains(s.why, "lib") {
			t.Errorf("%s: it is not said what was not shown: %q", c.name, s.why)
		}
		host.Close()
		guest.Close()
	}
}
