package packet

import "testing"

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
	l, _ := benchLink(t, Options{})
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
