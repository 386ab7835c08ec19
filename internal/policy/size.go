package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

var errSize = errors.New("want a number and a unit, such as 512k, 10MB or 1.5GiB")

// ParseSize reads an amount of data as people write it: 512k, 10MB, 1.5GiB. Units are
// powers of 1024 as everywhere in coffer, in either case and with or without "b" or
// "ib". (The limits of a machine have a parser too, in a package that does I/O.)
func ParseSize(s string) (int64, error) {
	n, err := parseSize(strings.ToLower(strings.TrimSpace(s)))
	if err != nil {
		return 0, fmt.Errorf("size %s: %w", quote(s), err)
	}
	return n, nil
}

func parseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
	shift, ok := unitShift(strings.TrimSpace(s[len(number):]))
	if !ok {
		return 0, errSize
	}
	whole, fraction, point := strings.Cut(number, ".")
	if point && (fraction == "" || len(fraction) > 6 || shift == 0) {
		return 0, errSize
	}
	if strings.Trim(whole+fraction, "0123456789") != "" { // ParseUint takes a sign
		return 0, errSize
	}
	n, err := strconv.ParseUint(whole, 10, 63)
	if errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64>>shift {
		return 0, errors.New("is too large")
	}
	if err != nil {
		return 0, errSize
	}
	bytes := int64(n << shift)
	if fraction != "" {
		bytes += fractionOf(fraction, shift)
	}
	switch {
	case bytes < 0:
		return 0, errors.New("is too large")
	case bytes == 0:
		return 0, errors.New("cannot be zero; deny the destination, or leave the limit out")
	}
	return bytes, nil
}

// fractionOf returns 0.DIGITS units in bytes, rounded down.
func fractionOf(digits string, shift uint) int64 {
	n, divisor := int64(0), int64(1)
	for _, d := range digits {
		n, divisor = n*10+int64(d-'0'), divisor*10
	}
	return n << shift / divisor
}

func unitShift(unit string) (shift uint, ok bool) {
	switch unit {
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
