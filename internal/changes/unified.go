package changes

import (
	"bytes"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// hunks returns the unified-diff hunks that turn old into new, without headers.
func hunks(old, new []byte) []byte {
	// The library prints three header lines with the names it is given; ours
	// need git's rules for odd names, so its own are cut off.
	out := diff.Diff("a", old, "b", new)
	for range 3 {
		_, out, _ = bytes.Cut(out, []byte("\n"))
	}
	return out
}

// isBinary is git's rule: a NUL among the first 8000 bytes.
func isBinary(b []byte) bool {
	return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
}

// headerName is a path on a --- or +++ line. A name with a space is followed by
// a tab, or else patch(1) takes what comes after the space for a date.
func headerName(prefix, p string) string {
	q := Quote(prefix + p)
	if strings.Contains(q, " ") && !strings.HasPrefix(q, `"`) {
		q += "\t"
	}
	return q
}
