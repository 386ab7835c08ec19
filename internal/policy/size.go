package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ParseSize reads an amount of data as people write it: 512k, 10MB, 1.5GiB. Units are
// powers of 1024 as everywhere in coffer, in either case and with or without "b" or
// "ib". (The limits of a machine have a parser too, in a package that does I/O.)
func ParseSize(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	unit := slices.Index(units, cmp.Or(strings.TrimSpace(text[len(number):]), "b"))
	power := math.Pow(1024, float64((unit+2)/3))
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || unit < 0 || strings.Trim(number, "0123456789.") != "" || unit == 0 && strings.Contains(number, "."):
		err = errors.New("want a number and a unit, such as 512k, 10MB or 1.5GiB")
	case n*power >= math.MaxInt64:
		err = errors.New("is too large")
	case n*power < 1:
		err = errors.New("cannot be zero; deny the destination, or leave the limit out")
	}
	if err != nil {
		return 0, fmt.Errorf("size %s: %w", quote(s), err)
	}
	return int64(n * power), nil
}

var units = strings.Fields("b k kb kib m mb mib g gb gib t tb tib")
