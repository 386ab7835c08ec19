package escape

import (
	"os"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/fakenet"
	"github.com/cofferhq/coffer/internal/testbed"
)

// TestEscapePackets makes the attempts on the network that matter most over the packet
// link, which hosts without packet rules use: the gateway is the same, the way to it is not.
func TestEscapePackets(t *testing.T) {
	t.Parallel()
	b := testbed.New(t, os.Getuid())
	program(t)
	internet := fakenet.Enter(t, testbed.Variant(t, "-X github.com/cofferhq/coffer/internal/guest.withoutRules=yes"))
	if internet == nil {
		return
	}
	s := newWires(t, b, internet)
	for _, c := range []crossing{
		{name: "standard", walls: join(strangers, exfiltration, metadata(), ownHost), ways: standardWays},
		{name: "rules", rules: rules, walls: join(rebinding(), serverNames, hostHeaders, spellings), ways: ruleWays},
		{name: "nested", flags: []string{"--nesting"}, walls: nestedWiring()},
	} {
		c.walls = overPackets(c.walls)
		s.cross(c)
	}
	s.r.who += ", packet link"
	s.r.show(t)
}

// overPackets is what attempts meet there: a connection may be refused before it is made,
// and there are no sockets inside that take connections.
func overPackets(list []attempt) (all []attempt) {
	for _, a := range list {
		if strings.Contains(a.wall, "ECONNRESET") {
			a.wall += " ECONNREFUSED"
		}
		if strings.HasPrefix(a.n, "x13.") {
			a.wall += " EADDRNOTAVAIL" // no address but its own is local there
		}
		if strings.HasSuffix(a.n, "x14") {
			a.wall = "NOBODY-LISTENS"
		}
		all = append(all, a)
	}
	return all
}
