package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
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

// quote makes untrusted text fit to be shown.
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
