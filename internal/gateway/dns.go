package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort    = 53
	dnsTimeout = 5 * time.Second  // for records that must be looked up outside
	dnsIdle    = 15 * time.Second // between two queries on a connection
	// maxQuery bounds a query. It holds one name of 255 bytes and some options.
	maxQuery = 4 << 10
)

// allowName decides whether a name may be known inside. A name that could only be
// reached after a question is known: the question comes with the connection.
func (g *Gateway) allowName(name string) (bool, string) {
	d := g.policy.Load().Name(policy.Query{Host: name, Now: time.Now()})
	if d.Verdict != policy.Deny {
		return true, ""
	}
	g.journal.refused(audit.Event{
		Kind: audit.KindDNS, Host: clip(name), Verdict: policy.Deny.String(), Rule: d.Rule, Reason: d.Reason,
	})
	g.denyName(name, d)
	return false, d.Reason
}

// denyName tells the user of a refused name: for most programs it is the only refusal
// that they ever meet. A name with bytes that no name has is no news.
func (g *Gateway) denyName(name string, d policy.Decision) {
	host, err := policy.Canonical(name)
	if err != nil {
		return
	}
	n := Denial{Time: time.Now(), Host: host, Protocol: "dns", Rule: d.Rule, Reason: d.Reason, Count: 1}
	if d.Rule == defaultRule {
		n.Allow = g.allow(host, 0, "")
	}
	g.denials.addName(n)
}

// answerDatagram answers a query over UDP.
func (g *Gateway) answerDatagram(query []byte, from, to netip.AddrPort) {
	ctx, cancel := context.WithTimeout(g.ctx, dnsTimeout)
	defer cancel()
	if answer := g.resolver.Answer(ctx, query, true); answer != nil {
		_ = g.link.WriteDatagram(answer, to, from)
	}
}

// serveDNS answers queries over TCP, one after the other.
func (g *Gateway) serveDNS(in link.Flow) {
	c, err := in.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	stop := context.AfterFunc(g.ctx, c.Reset)
	defer stop()
	kept := claim{reserve: g.ahead}
	defer kept.set(0)
	for {
		_ = c.SetDeadline(time.Now().Add(dnsIdle))
		query, err := readQuery(c)
		if err != nil {
			return
		}
		answer := g.answerStream(query)
		if answer == nil || len(answer) > 1<<16-1 || !kept.buffer(2*len(answer)) {
			c.Reset()
			return
		}
		out := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(answer)), uint16(len(answer)))
		if _, err := c.Write(append(out, answer...)); err != nil {
			return
		}
		kept.set(0)
	}
}

// readQuery reads a query with its length before it. That length is only a word: memory is
// taken for what has come.
func readQuery(c io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	want := int64(binary.BigEndian.Uint16(size[:]))
	if want > maxQuery {
		return nil, errTooLong
	}
	query, err := io.ReadAll(io.LimitReader(c, want))
	if err == nil && int64(len(query)) < want {
		err = io.ErrUnexpectedEOF
	}
	return query, err
}

// answerStream answers a query over TCP in its turn, nil if that does not come.
func (g *Gateway) answerStream(query []byte) []byte {
	ctx, cancel := context.WithTimeout(g.ctx, dnsTimeout)
	defer cancel()
	select {
	case g.queries <- struct{}{}:
		defer func() { <-g.queries }()
		return g.resolver.Answer(ctx, query, false)
	case <-ctx.Done():
		return nil
	}
}

// lookup gets other records than addresses from the host's resolver.
func lookup(ctx context.Context, name string, kind dnsmessage.Type) (out []dnsmessage.ResourceBody, err error) {
	r := net.DefaultResolver
	fqdn := name + "."
	switch kind {
	case dnsmessage.TypeTXT:
		var texts []string
		texts, err = r.LookupTXT(ctx, fqdn)
		for _, t := range texts {
			out = append(out, &dnsmessage.TXTResource{TXT: split(t)})
		}
	case dnsmessage.TypeMX:
		var list []*net.MX
		list, err = r.LookupMX(ctx, fqdn)
		for _, m := range list {
			if n, e := dnsmessage.NewName(m.Host); e == nil {
				out = append(out, &dnsmessage.MXResource{Pref: m.Pref, MX: n})
			}
		}
	case dnsmessage.TypeNS:
		var list []*net.NS
		list, err = r.LookupNS(ctx, fqdn)
		for _, m := range list {
			if n, e := dnsmessage.NewName(m.Host); e == nil {
				out = append(out, &dnsmessage.NSResource{NS: n})
			}
		}
	case dnsmessage.TypeSRV:
		var list []*net.SRV
		_, list, err = r.LookupSRV(ctx, "", "", fqdn)
		for _, m := range list {
			if n, e := dnsmessage.NewName(m.Target); e == nil {
				out = append(out, &dnsmessage.SRVResource{Priority: m.Priority, Weight: m.Weight, Port: m.Port, Target: n})
			}
		}
	}
	var none *net.DNSError
	if errors.As(err, &none) && none.IsNotFound {
		err = nil
	}
	return out, err
}

// split cuts a text into the strings of at most 255 bytes that a record is made of.
func split(t string) []string {
	var parts []string
	for len(t) > 255 {
		parts = append(parts, strings.Clone(t[:255]))
		t = t[255:]
	}
	return append(parts, t)
}
