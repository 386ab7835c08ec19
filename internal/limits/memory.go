package limits

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// ParseMemory reads a size as people write it: 512m, 2G, 1.5GiB, or a plain
// number of bytes. Units are powers of 1024 in either case and with or without
// "b" or "ib", because that is what memory limits mean everywhere else.
func ParseMemory(s string) (int64, error) {
	n, err := parseMemory(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("memory size %q: %w", s, err)
	}
	return n, nil
}

var errMemoryForm = errors.New("want a number and a unit, such as 512m, 2G or 1.5GiB")

func parseMemory(s string) (int64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("cannot be negative")
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	number, unit := s[:end], strings.TrimSpace(s[end:])
	shift, ok := unitShift(unit)
	if !ok {
		return 0, errMemoryForm
	}
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" || point && fraction == "" || strings.Contains(fraction, ".") {
		return 0, errMemoryForm
	}
	if point && shift == 0 {
		return 0, errors.New("a part of a byte; " + errMemoryForm.Error())
	}
	if len(number) > 40 { // nothing sensible is; keeps the arithmetic small
		return 0, errors.New("too many digits")
	}
	// Exact arithmetic: a float would turn large sizes into their neighbours
	// and overflow into something that looks valid.
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, errMemoryForm
	}
	exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), shift)))
	bytes := new(big.Int).Quo(exact.Num(), exact.Denom())
	switch {
	case !bytes.IsInt64():
		return 0, errors.New("too large")
	case bytes.Sign() == 0:
		return 0, errors.New("cannot be zero; leave the limit out for no limit")
	}
	return bytes.Int64(), nil
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
