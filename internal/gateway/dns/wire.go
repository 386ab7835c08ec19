package dns

import (
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Sizes of messages. Over UDP no answer is larger than what passes everywhere in one
// packet, whatever the query offers; the program asks again over TCP.
const (
	minUDP = 512
	maxUDP = 1232
	maxTCP = 16 << 10
)

// A query is what of a query the answer depends on.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	asked    bool // there is a question to repeat in the answer
	edns     bool // the query has an OPT record, so may the answer
	udpSize  int
}

// parse reads a query. ok is false for what gets no answer: too short to have an id, or
// an answer itself (two servers must not talk to each other for ever). A code other
// than RCodeSuccess says what is wrong with the query.
func parse(b []byte) (q query, rcode dnsmessage.RCode, ok bool) {
	q.udpSize = minUDP
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(b); err != nil || q.header.Response {
		return q, 0, false
	}
	if q.header.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented, true
	}
	q.question, err = p.Question()
	if err != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	q.asked = true
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		return q, dnsmessage.RCodeFormatError, true
	}
	// A plain query has no answers and no authorities.
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	return q, q.options(&p), true
}

// options reads the additional section, of which only the OPT record matters.
func (q *query) options(p *dnsmessage.Parser) dnsmessage.RCode {
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			return dnsmessage.RCodeSuccess
		}
		if err != nil {
			return dnsmessage.RCodeFormatError
		}
		if h.Type == dnsmessage.TypeOPT {
			if q.edns || h.Name.Length != 1 {
				return dnsmessage.RCodeFormatError
			}
			q.edns = true
			q.udpSize = min(max(int(h.Class), minUDP), maxUDP)
			if version := h.TTL >> 16 & 0xff; version != 0 {
				return badVersion
			}
		}
		if p.SkipAdditional() != nil {
			return dnsmessage.RCodeFormatError
		}
	}
}

// badVersion says that the query has a later EDNS version than 0; its upper bits are in
// the OPT record.
const badVersion dnsmessage.RCode = 16

// pack writes the answer. One that is too long is cut: over UDP it has no records, so that the
// program asks again over TCP, and there it has as many as fit.
func (q *query) pack(a reply, udp bool) []byte {
	limit := maxTCP
	if udp {
		limit = q.udpSize
	}
	out := q.build(a, false)
	for len(out) > limit && len(a.records) > 0 {
		a.records = a.records[:len(a.records)/2]
		if udp {
			a.records = nil // half an answer over UDP would only be thrown away
		}
		out = q.build(a, udp)
	}
	return out
}

func (q *query) build(a reply, truncated bool) []byte {
	h := dnsmessage.Header{
		ID:                 q.header.ID,
		Response:           true,
		OpCode:             q.header.OpCode,
		Truncated:          truncated,
		RecursionDesired:   q.header.RecursionDesired,
		RecursionAvailable: true,
		CheckingDisabled:   q.header.CheckingDisabled,
		RCode:              a.rcode & 0xf,
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), h)
	b.EnableCompression()
	if q.asked {
		b.StartQuestions()
		b.Question(q.question)
	}
	b.StartAnswers()
	for _, r := range a.records {
		_ = add(&b, q.question.Name, r)
	}
	if q.edns {
		b.StartAdditionals()
		var oh dnsmessage.ResourceHeader
		oh.SetEDNS0(maxUDP, a.rcode, false)
		b.OPTResource(oh, a.option())
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

// option is the extended DNS error, if there is one.
func (a *reply) option() dnsmessage.OPTResource {
	if a.ede == 0 {
		return dnsmessage.OPTResource{}
	}
	why := printable(a.why)
	data := append([]byte{byte(a.ede >> 8), byte(a.ede)}, why...)
	return dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 15, Data: data}}}
}

// printable bounds a reason and takes from it what a terminal could obey.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}

// add packs a record of a type that an answer can have.
func add(b *dnsmessage.Builder, name dnsmessage.Name, r dnsmessage.ResourceBody) error {
	h := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}
	switch r := r.(type) {
	case *dnsmessage.AResource:
		return b.AResource(h, *r)
	case *dnsmessage.AAAAResource:
		return b.AAAAResource(h, *r)
	case *dnsmessage.PTRResource:
		return b.PTRResource(h, *r)
	case *dnsmessage.NSResource:
		return b.NSResource(h, *r)
	case *dnsmessage.MXResource:
		return b.MXResource(h, *r)
	case *dnsmessage.TXTResource:
		return b.TXTResource(h, *r)
	case *dnsmessage.SRVResource:
		return b.SRVResource(h, *r)
	case *dnsmessage.UnknownResource:
		return b.UnknownResource(h, *r)
	}
	return dnsmessage.ErrNotStarted
}

// typeOf is the type of a record from outside, 0 for one that an answer cannot have.
func typeOf(r dnsmessage.ResourceBody) dnsmessage.Type {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{})
	b.StartAnswers()
	if add(&b, dnsmessage.Name{Data: [255]byte{'.'}, Length: 1}, r) != nil {
		return 0
	}
	switch r.(type) {
	case *dnsmessage.NSResource:
		return dnsmessage.TypeNS
	case *dnsmessage.MXResource:
		return dnsmessage.TypeMX
	case *dnsmessage.TXTResource:
		return dnsmessage.TypeTXT
	case *dnsmessage.SRVResource:
		return dnsmessage.TypeSRV
	}
	return 0
}
