package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// portRange is from lo to hi, both included.
type portRange struct{ lo, hi uint16 }

// ports is sorted, and its ranges neither touch nor overlap.
type ports []portRange

// realPorts is what rules can name. allPorts includes 0, the port of what has none.
var (
	realPorts = portRange{1, 65535}
	allPorts  = ports{{0, 65535}}
)

// parsePorts reads "443", "80,443" and "8000-8999".
func parsePorts(s string) (ports, error) {
	var list ports
	for item := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(item, "-")
		lo, err := parsePort(low)
		if err != nil {
			return nil, err
		}
		hi := lo
		if isRange {
			if hi, err = parsePort(high); err != nil {
				return nil, err
			}
		}
		if hi < lo {
			return nil, fmt.Errorf("ports %q: the range ends before it begins", item)
		}
		list = append(list, portRange{lo, hi})
	}
	return union(list), nil
}

func parsePort(s string) (uint16, error) {
	if s == "" {
		return 0, errors.New("a port is missing; write 443, 80,443 or 8000-8999 after the colon")
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '+' {
		return 0, fmt.Errorf("port %s is not a number from 1 to 65535", quote(s))
	}
	return uint16(n), nil
}

// union sorts list, in place, and joins what touches.
func union(list []portRange) ports {
	slices.SortFunc(list, func(a, b portRange) int { return int(a.lo) - int(b.lo) })
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && int(r.lo) <= int(out[n-1].hi)+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// covers says whether all of r is in p.
func (p ports) covers(r portRange) bool {
	i, found := slices.BinarySearchFunc(p, r.lo, func(e portRange, lo uint16) int { return int(e.lo) - int(lo) })
	if !found {
		i-- // the last that begins before r
	}
	return i >= 0 && r.hi <= p[i].hi
}

func (p ports) String() string {
	var b strings.Builder
	for i, r := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(r.lo)))
		if r.hi > r.lo {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(r.hi)))
		}
	}
	return b.String()
}
