package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Target is where a rule points: names or addresses, and ports.
type Target struct {
	kind   kind
	host   string       // the name, or the part after *., or the group
	prefix netip.Prefix // of inside
	ports  ports        // nil: all
}

type kind uint8

const (
	everything kind = iota // *
	exactly                // example.com
	below                  // *.example.com
	inside                 // an address or a CIDR
	group                  // @npm
)

// ParseTarget reads a target of a rule:
//
//	example.com           the name, on any port
//	example.com:80,443    on these ports
//	*.example.com:443     any depth below, but not example.com itself
//	*:8000-8999           any name or address
//	192.0.2.7:22          an address
//	10.0.0.0/8:5432       addresses
//	2001:db8::/32         IPv6, in brackets if a port follows: [2001:db8::7]:443
//	@npm                  a built-in group, see [Groups]
func ParseTarget(s string) (Target, error) {
	t, err := parseTarget(s)
	if err != nil {
		return Target{}, fmt.Errorf("target %s: %w", quote(s), err)
	}
	return t, nil
}

func parseTarget(s string) (Target, error) {
	if s == "" {
		return Target{}, errors.New("is empty")
	}
	if name, ok := strings.CutPrefix(s, "@"); ok {
		if _, err := findGroup(name); err != nil {
			return Target{}, err
		}
		return Target{kind: group, host: name}, nil
	}
	if _, rest, ok := strings.Cut(s, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return Target{}, fmt.Errorf("is a URL; write the host alone, as in %s", quote(host))
	}
	host, portList, hasPorts, err := splitPorts(s)
	if err != nil {
		return Target{}, err
	}
	t, err := parseHost(host)
	if err == nil && hasPorts {
		t.ports, err = parsePorts(portList)
	}
	return t, err
}

// splitPorts cuts at the colon that begins the ports, if there is one.
func splitPorts(s string) (host, portList string, hasPorts bool, err error) {
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false, errors.New("has a bracket that is never closed")
		}
		host, rest := s[1:end], s[end+1:]
		if !strings.Contains(host, ":") {
			return "", "", false, errors.New("has something else than an IPv6 address in brackets")
		}
		if rest == "" {
			return host, "", false, nil
		}
		if rest[0] != ':' {
			return "", "", false, errors.New("goes on after the bracket; only :ports can follow, and a /length belongs inside")
		}
		return host, rest[1:], true, nil
	}
	if strings.Count(s, ":") > 1 {
		return s, "", false, nil // IPv6
	}
	host, portList, hasPorts = strings.Cut(s, ":")
	return host, portList, hasPorts, nil
}

func parseHost(host string) (Target, error) {
	switch {
	case host == "*":
		return Target{kind: everything}, nil
	case strings.Contains(host, "/"):
		prefix, err := parsePrefix(host)
		return Target{kind: inside, prefix: prefix}, err
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	name, err := Canonical(name)
	if err != nil {
		return Target{}, err
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if wildcard {
			return Target{}, errors.New("has *. before an address; write a range such as 10.0.0.0/8")
		}
		return Target{kind: inside, prefix: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	if wildcard {
		return Target{kind: below, host: name}, nil
	}
	return Target{kind: exactly, host: name}, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, errors.New("is no range of addresses such as 10.0.0.0/8; paths belong into paths")
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, errors.New("has a length that cuts through the middle of IPv4 in IPv6")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("is an address with a length; the range is %v, the address alone is %v", p.Masked(), p.Addr())
	}
	return p, nil
}

// String returns the target in its canonical spelling.
func (t Target) String() string {
	var host string
	switch t.kind {
	case everything:
		host = "*"
	case exactly:
		host = t.host
	case below:
		host = "*." + t.host
	case group:
		return "@" + t.host
	case inside:
		host = t.prefix.String()
		if t.prefix.IsSingleIP() {
			host = t.prefix.Addr().String()
		}
		if t.prefix.Addr().Is6() && t.ports != nil {
			host = "[" + host + "]"
		}
	}
	if t.ports == nil {
		return host
	}
	return host + ":" + t.ports.String()
}
