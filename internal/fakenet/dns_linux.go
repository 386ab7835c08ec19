package fakenet

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// The addresses of every name that the zone says nothing else about.
const (
	Public4 = "20.0.0.1"
	Public6 = "2a0f:c0ff::1"
)

// A Zone says what addresses names have. Every name there is exists.
type Zone struct {
	mu    sync.Mutex
	names map[string]*answers
}

// answers take turns.
type answers struct {
	turns [][]netip.Addr
	asked map[dnsmessage.Type]int
}

func newZone() *Zone { return &Zone{names: map[string]*answers{}} }

// Set gives a name addresses, separated by spaces. Several such lists take turns, from
// one question to the next: that is how a name is bound to another address between a
// look and a leap.
func (z *Zone) Set(name string, turns ...string) {
	a := &answers{asked: map[dnsmessage.Type]int{}}
	for _, turn := range turns {
		list := []netip.Addr{}
		for addr := range strings.FieldsSeq(turn) {
			list = append(list, netip.MustParseAddr(addr))
		}
		a.turns = append(a.turns, list)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.names[name] = a
}

func (z *Zone) lookup(name string, kind dnsmessage.Type) []netip.Addr {
	z.mu.Lock()
	defer z.mu.Unlock()
	a := z.names[strings.ToLower(strings.TrimSuffix(name, "."))]
	if a == nil {
		return []netip.Addr{netip.MustParseAddr(Public4), netip.MustParseAddr(Public6)}
	}
	n := a.asked[kind]
	a.asked[kind]++
	return a.turns[n%len(a.turns)]
}

func answerDNS(w *World, query []byte, e *entry) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	// On the wire a name has lengths between its labels.
	e.say([]byte(" " + q.Name.String() + " " + q.Type.String() + " "))
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true, RecursionDesired: h.RecursionDesired})
	b.EnableCompression()
	b.StartQuestions()
	b.Question(q)
	b.StartAnswers()
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	switch q.Type {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		for _, a := range w.Zone.lookup(q.Name.String(), q.Type) {
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				b.AResource(rh, dnsmessage.AResource{A: a.As4()})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: a.As16()})
			}
		}
	case dnsmessage.TypeTXT:
		b.TXTResource(rh, dnsmessage.TXTResource{TXT: []string{"a text of the fake internet"}})
	case dnsmessage.TypePTR:
		b.PTRResource(rh, dnsmessage.PTRResource{PTR: dnsmessage.MustNewName("somebody.example.")})
	case dnsmessage.TypeMX:
		b.MXResource(rh, dnsmessage.MXResource{Pref: 1, MX: dnsmessage.MustNewName("mail.example.")})
	}
	answer, err := b.Finish()
	if err != nil {
		return nil
	}
	return answer
}

func serveDNS(w *World, c net.Conn, e *entry) {
	in := tapped{c, e}
	for {
		var size [2]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(in, query); err != nil {
			return
		}
		answer := answerDNS(w, query, e)
		if answer == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}
