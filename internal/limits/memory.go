package limits

import (
	"math/big"
	"strings"
)

// ParseMemory reads a size as people write it: 512m, 2G, 1.5GiB, or a plain
// number of bytes. Units are powers of 1024 in either case and with or without
// "b" or "ib", because that is what memory limits mean everywhere else. What is too
// little for a sandbox to start is refused with the rest.
func ParseMemory(s string) (int64, error) {
	n, why := parseMemory(strings.TrimSpace(s))
	switch {
	case why != "":
		if why == tooLarge {
			return 0, wrong("want less, such as 512m, 2G or 1.5GiB; for no limit, leave it out", "%q %s", s, why)
		}
		return 0, wrong("want a number and a unit, such as 512m, 2G or 1.5GiB", "%q %s", s, why)
	case n >= minMemory:
		return n, nil
	}
	want := least("6m", n == 0)
	if n > 0 && strings.Trim(s, " 0123456789") == "" {
		want += ", and a unit, such as 512m"
	}
	return 0, wrong(want, "%q is too little for the sandbox itself", s)
}

// minKeep is the least that is kept free of a disk: less is a unit that was forgotten.
const minKeep = 1 << 20

// ParseKeepFree reads how much of a disk is to be kept free, as ParseMemory does. 0 is nothing, which
// is returned as -1.
func ParseKeepFree(s string) (int64, error) {
	n, why := parseMemory(strings.TrimSpace(s))
	switch {
	case why != "":
		return 0, wrong("want a number and a unit, such as 512m or 2g, or 0 to keep nothing free", "%q %s", s, why)
	case n == 0:
		return -1, nil
	case n < minKeep:
		return 0, wrong("want at least 1m, and a unit, or 0 to keep nothing free", "%q is too little to be of use", s)
	}
	return n, nil
}

const tooLarge = "is too large"

// parseMemory is ParseMemory without a bound below. It says why something is no size.
func parseMemory(s string) (n int64, why string) {
	const noSize = "is not a size"
	if strings.HasPrefix(s, "-") {
		return 0, "is negative"
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	number, unit := s[:end], strings.TrimSpace(s[end:])
	shift, ok := unitShift(unit)
	if !ok {
		return 0, noSize
	}
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" || point && fraction == "" || strings.Contains(fraction, ".") {
		return 0, noSize
	}
	if point && shift == 0 {
		return 0, "has a part of a byte"
	}
	if len(number) > 40 { // nothing sensible is; keeps the arithmetic small
		return 0, "has too many digits"
	}
	// Exact arithmetic: a float would turn large sizes into their neighbours
	// and overflow into something that looks valid.
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, noSize
	}
	exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), shift)))
	bytes := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !bytes.IsInt64() {
		return 0, tooLarge
	}
	return bytes.Int64(), ""
}

func unitShift(unit string) (shift uint, ok bool) {
	switch strings.ToLower(unit) {
	case "", "b":
		return 0, true
	case "k", "kb", "kib":
		return 10, true
	case "m", "mb", "mib":
		return 20, true
	case "g", "gb", "gib":
		return 30, true
	case "t", "tb", "tib":
		return 40, true
	}
	return 0, false
}
