package dns

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
)

func TestAddressesLieInTheirRangesAndDiffer(t *testing.T) {
	table := NewTable(maxNames)
	seen := map[netip.Addr]string{}
	for i := range 5000 {
		name := fmt.Sprintf("host-%d.example.com", i)
		v4, v6 := table.Addresses(name)
		if !link.Synthetic4.Contains(v4) || link.Reserved4.Contains(v4) {
			t.Fatalf("%s has %s", name, v4)
		}
		if !link.Synthetic6.Contains(v6) || link.Reserved6.Contains(v6) {
			t.Fatalf("%s has %s", name, v6)
		}
		for _, a := range []netip.Addr{v4, v6} {
			if other, ok := seen[a]; ok {
				t.Fatalf("%s and %s both have %s", name, other, a)
			}
			seen[a] = name
		}
	}
	for a, name := range seen {
		if got, ok := table.Name(a); !ok || got != name {
			t.Fatalf("Name(%s) = %q, %v, want %s", a, got, ok, name)
		}
	}
}

func TestEveryAddressCanBeReached(t *testing.T) {
	first, last := synthetic4(0), synthetic4(1<<17-1<<8-1)
	if first != netip.MustParseAddr("198.18.1.0") || last != netip.MustParseAddr("198.19.255.255") {
		t.Errorf("addresses go from %s to %s", first, last)
	}
}

// The numbers are part of what programs inside may have stored: a change of the hash
// is a change that users notice.
func TestAddressesAreTheSameInEveryTable(t *testing.T) {
	v4, v6 := NewTable(0).Addresses("example.com")
	other := NewTable(10)
	other.Addresses("something.else")
	if o4, o6 := other.Addresses("example.com"); o4 != v4 || o6 != v6 {
		t.Errorf("%s %s in one table, %s %s in another", v4, v6, o4, o6)
	}
	if v4.String() != "198.19.115.153" || v6.String() != "fd63:6f66:6665:7201:d2c:aaf8:3f1b:4299" {
		t.Errorf("example.com has %s and %s", v4, v6)
	}
}

func TestNamesThatMeetGetDifferentAddresses(t *testing.T) {
	slots := map[netip.Addr]string{}
	var a, b string
	for i := 0; a == ""; i++ {
		name := fmt.Sprintf("n%d.example", i)
		slot := synthetic4(hash(name))
		if other, ok := slots[slot]; ok {
			a, b = other, name
		}
		slots[slot] = name
	}
	table := NewTable(0)
	a4, _ := table.Addresses(a)
	b4, _ := table.Addresses(b)
	if a4 != synthetic4(hash(a)) || a4 == b4 {
		t.Fatalf("%s has %s, %s has %s", a, a4, b, b4)
	}
	if again, _ := table.Addresses(b); again != b4 {
		t.Errorf("%s had %s and has %s", b, b4, again)
	}
	if name, _ := table.Name(b4); name != b {
		t.Errorf("%s is of %q, want %s", b4, name, b)
	}
}

func TestFullTableForgetsWhatWasUsedLongestAgo(t *testing.T) {
	table := NewTable(3)
	a4, a6 := table.Addresses("a.example")
	b4, b6 := table.Addresses("b.example")
	c4, _ := table.Addresses("c.example")
	table.Addresses("a.example") // used again by its name
	table.Name(c4)               // and this one by its address
	table.Addresses("d.example")

	for _, a := range []netip.Addr{b4, b6} {
		if name, ok := table.Name(a); ok {
			t.Errorf("%s is still %s", a, name)
		}
	}
	for a, want := range map[netip.Addr]string{a4: "a.example", a6: "a.example", c4: "c.example"} {
		if name, _ := table.Name(a); name != want {
			t.Errorf("%s is %q, want %s", a, name, want)
		}
	}
	for i := range 1000 {
		table.Addresses(fmt.Sprint(i))
	}
	if len(table.byName) != 3 || len(table.byAddr) != 6 {
		t.Errorf("%d names, %d addresses in a table of 3", len(table.byName), len(table.byAddr))
	}
	if again, _ := table.Addresses("b.example"); again != b4 {
		t.Errorf("b.example had %s, came back with %s", b4, again)
	}
}

func TestMappedAddressIsTheAddress(t *testing.T) {
	table := NewTable(0)
	v4, _ := table.Addresses("a.example")
	if name, _ := table.Name(netip.AddrFrom16(v4.As16())); name != "a.example" {
		t.Errorf("the mapped form is of %q", name)
	}
}

func TestTableInManyHands(t *testing.T) {
	table := NewTable(50)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				name := fmt.Sprintf("%d.example", (i*31+j)%100)
				v4, _ := table.Addresses(name)
				if got, ok := table.Name(v4); ok && got != name {
					// Another goroutine may have pushed the name out, and a third may
					// have been given the address; both are rare, not wrong.
					if again := synthetic4(hash(got)); again != v4 {
						t.Errorf("%s of %s is of %s", v4, name, got)
					}
				}
			}
		})
	}
	wg.Wait()
	if len(table.byName) > 50 {
		t.Errorf("%d names in a table of 50", len(table.byName))
	}
}
