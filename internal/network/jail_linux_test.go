package network

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// quietLink is a link of which nothing ever comes.
type quietLink struct {
	served chan struct{} // closed when somebody listens
	closed chan struct{}
	once   sync.Once
}

func (q *quietLink) Accept() (link.Flow, error) {
	close(q.served)
	<-q.closed
	return nil, net.ErrClosed
}
func (q *quietLink) ReadDatagram([]byte) (int, netip.AddrPort, netip.AddrPort, error) {
	<-q.closed
	return 0, netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed
}
func (q *quietLink) WriteDatagram([]byte, netip.AddrPort, netip.AddrPort) error { return nil }
func (q *quietLink) RefuseDatagram(netip.AddrPort, netip.AddrPort) error        { return nil }
func (q *quietLink) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// A jail that does not use its network leaves nothing behind, and one that does leaves a
// log. Both end when they are told to.
func TestJailed(t *testing.T) {
	for _, uses := range []bool{false, true} {
		dir := t.TempDir()
		store := filepath.Join(dir, "sandboxes")
		j := NewJail(store, sandbox.Record{
			Network: sandbox.Network{Mode: "standard"}, Command: []string{"x"},
			Workspace: sandbox.Workspace{Path: dir, Mode: sandbox.WorkspaceDirect},
		})
		j.Tell = func(line string, _ bool) { t.Log(line) }
		l := &quietLink{served: make(chan struct{}), closed: make(chan struct{})}
		end, err := j.Connect(l)
		if err != nil {
			t.Fatal(err)
		}
		if uses {
			<-l.served // nobody uses it before
			j.add(audit.Event{Kind: audit.KindFlow, Host: "a.example", Verdict: "deny"})
		}
		ended := make(chan struct{})
		go func() { end(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
		found, _ := os.ReadDir(JailStore(store))
		if (len(found) > 0) != uses {
			t.Errorf("used: %v, and left: %v", uses, found)
		}
	}
}
