package packet

import (
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
)

func TestShare(t *testing.T) {
	for _, c := range []struct{ connections, want int }{
		{0, maxBuffer}, {1, maxBuffer}, {16, maxBuffer}, {17, maxBuffer / 2}, {100, 512 << 10}, {1000, minBuffer}, {maxConnections, minBuffer},
	} {
		if got := share(c.connections); got != c.want {
			t.Errorf("share of %d is %d, want %d", c.connections, got, c.want)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	l, _ := benchLink(t)
	c := &l.connections
	for i := range maxConnections {
		f := new(flow)
		if !c.enter(f) {
			t.Fatalf("connection %d was not let in", i)
		}
		if !c.decided(f) || c.decided(f) {
			t.Fatal("a flow is decided once")
		}
	}
	if c.enter(new(flow)) {
		t.Error("one too many was let in")
	}
	c.leave()
	if f := new(flow); !c.enter(f) || !c.decided(f) {
		t.Error("nobody is let in after one has left")
	}
}

// A closing is an endpoint that has been closed.
type closing struct {
	tcpip.Endpoint
	aborted bool
}

func (c *closing) Abort() { c.aborted = true }

func TestDeparturesAreBounded(t *testing.T) {
	for _, size := range []int{0, 1 << 20} {
		l, _ := benchLink(t)
		c := &l.connections
		var all []*closing
		for range 2 * maxDeparting {
			e := new(closing)
			all = append(all, e)
			c.depart(e, size)
		}
		keep := maxDeparting
		if size > 0 {
			keep = maxDepartingBytes / size
		}
		for i, e := range all {
			if want := i < len(all)-keep; e.aborted != want {
				t.Fatalf("%d bytes each: departure %d of %d: aborted is %v", size, i, len(all), e.aborted)
			}
		}
	}
	l, _ := benchLink(t)
	e := new(closing)
	if l.connections.depart(e, 2*maxDepartingBytes); !e.aborted || l.connections.bytes != 0 {
		t.Errorf("one that is too much by itself: aborted is %v, %d bytes left", e.aborted, l.connections.bytes)
	}
}
