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
	m := dnsmessage.Message{Header: h}
	if q.asked {
		m.Questions = []dnsmessage.Question{q.question}
	}
	for _, r := range a.records {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: r,
		})
	}
	if q.edns {
		var oh dnsmessage.ResourceHeader
		oh.SetEDNS0(maxUDP, a.rcode, false)
		m.Additionals = []dnsmessage.Resource{{Header: oh, Body: a.option()}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// option is the extended DNS error, if there is one.
func (a *reply) option() *dnsmessage.OPTResource {
	if a.ede == 0 {
		return &dnsmessage.OPTResource{}
	}
	why := printable(a.why)
	data := append([]byte{byte(a.ede >> 8), byte(a.ede)}, why...)
	return &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 15, Data: data}}}
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
