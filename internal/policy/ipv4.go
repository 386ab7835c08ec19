package policy

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

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
