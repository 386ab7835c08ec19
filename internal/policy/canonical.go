package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxName  = 253  // of a name in DNS, without the trailing dot
	maxLabel = 63   // of a part between dots
	maxInput = 1024 // a name in Unicode may be longer than what it becomes
)

// Canonical returns the one spelling of a host: a name in lower case, without trailing
// dot, in ASCII; or an address as netip writes it, whichever of its many forms it came
// in: 0x7f.1, 017700000001, 2130706433 and ::ffff:127.0.0.1 are all 127.0.0.1.
//
// Anything else is an error, in particular what some program might read differently:
// user information, ports, zones, percent-encoding, control characters.
func Canonical(host string) (string, error) {
	name, err := canonical(host)
	if err != nil {
		return "", fmt.Errorf("host %s: %w", quote(host), err)
	}
	return name, nil
}

// NewQuery asks about a host in any spelling, a name or an address.
func NewQuery(host string, port uint16) (Query, error) {
	host, err := Canonical(host)
	if err != nil {
		return Query{}, err
	}
	q := Query{Host: host, Port: port}
	if addr, err := netip.ParseAddr(host); err == nil {
		q.Host, q.Addr = "", addr
	}
	return q, nil
}

func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%+q…", s[:most])
	}
	return fmt.Sprintf("%+q", s)
}

func canonical(host string) (string, error) {
	if host == "" {
		return "", errors.New("is empty")
	}
	if len(host) > maxInput {
		return "", errors.New("is too long")
	}
	if strings.Contains(host, "@") {
		return "", errors.New("has user information before an @, which does not belong here")
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok || !strings.Contains(inner, ":") {
			return "", errors.New("has a bracket that holds no IPv6 address")
		}
		return canonicalIPv6(inner)
	}
	if strings.Contains(host, ":") {
		return canonicalIPv6(host)
	}
	name, err := toASCII(host)
	if err != nil {
		return "", err
	}
	name = strings.TrimSuffix(name, ".")
	if err := checkName(name); err != nil {
		return "", err
	}
	if endsInNumber(name) {
		addr, err := parseIPv4(name)
		if err != nil {
			return "", err
		}
		return addr.String(), nil
	}
	return name, nil
}

func canonicalIPv6(s string) (string, error) {
	if strings.Contains(s, "%") {
		return "", errors.New("has a zone, which means nothing outside of one machine")
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return "", errors.New("is no IPv6 address, and a port does not belong here")
	}
	return addr.Unmap().String(), nil
}

// checkName wants lower-case ASCII.
func checkName(name string) error {
	if name == "" {
		return errors.New("is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("is longer than %d characters", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("has an empty part between dots")
		case len(label) > maxLabel:
			return fmt.Errorf("has a part longer than %d characters", maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("has a part that begins or ends with a hyphen")
		}
		for i := range len(label) {
			if !nameByte(label[i]) {
				return badByte(label[i])
			}
		}
	}
	return nil
}

func badByte(c byte) error {
	switch c {
	case '%':
		return errors.New("has a percent sign, and nobody agrees whether to decode it")
	case '*':
		return errors.New("has a * inside: it can only stand for everything below a name, as in *.example.com")
	}
	return fmt.Errorf("has the character %q, which no host name has", c)
}

// nameByte: underscores are in no host name by the book, but in many by practice.
func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// lookup turns Unicode to what programs ask DNS for: the rules of today's browsers.
// What is wrong with the result is found by checkName, which knows underscores.
var lookup = sync.OnceValue(func() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.StrictDomainName(false))
})

// toASCII turns a name to lower case, and from Unicode to its xn-- form. On the wire
// every name is ASCII already, and then any xn-- label is as good as another: what it
// stands for is between the client and DNS.
func toASCII(name string) (string, error) {
	for i := range len(name) {
		if name[i] < utf8.RuneSelf {
			continue
		}
		ascii, err := lookup().ToASCII(name)
		if err != nil || !utf8.ValidString(name) {
			return "", errors.New("has characters that no name can have, or not in this order")
		}
		return ascii, nil
	}
	return strings.ToLower(name), nil
}

// The C library reads many things as an IPv4 address: one to four numbers, each in
// decimal, octal (with a leading 0) or hexadecimal (0x), the last of which fills all
// bytes that are left. Browsers do the same, so a rule for an address must hold for all
// of them. A name that ends in a number can be nothing else: there is no such top-level
// domain, and there will not be one.

// endsInNumber wants what checkName has accepted.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

var errIPv4 = errors.New("ends in a number but is no IPv4 address")

func parseIPv4(s string) (netip.Addr, error) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, errIPv4
	}
	var addr uint64
	for i, part := range parts {
		n, err := parseIPv4Part(part)
		if err != nil {
			return netip.Addr{}, errIPv4
		}
		room := 8 // bits
		if i == len(parts)-1 {
			room = 8 * (5 - len(parts))
		}
		if n >= 1<<room {
			return netip.Addr{}, errIPv4
		}
		addr = addr<<room | n
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(addr)))), nil
}

func parseIPv4Part(s string) (uint64, error) {
	base := 10
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		s, base = hex, 16
	} else if len(s) > 1 && s[0] == '0' {
		s, base = s[1:], 8
	}
	return strconv.ParseUint(s, base, 32)
}
