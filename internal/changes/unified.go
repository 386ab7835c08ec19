package changes

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// A Side is one side of a file's diff.
type Side struct {
	Mode uint32 // git's: 100644, 100755, 120000; 0 if there is nothing
	Text []byte
	Size int64
	Huge bool // too large, or not to be read: there is no text
	// Unread says that it is Huge because it cannot be read. A program can see to that, by a lease.
	Unread bool
}

// A File is a path with both its sides.
type File struct {
	Path     string
	Old, New Side
}

// WriteFile writes the diff of one file, as git would. Errors of writing surface at Flush.
func WriteFile(out *bufio.Writer, p string, old, now Side) {
	a, b := Quote("a/"+p), Quote("b/"+p)
	fmt.Fprintf(out, "diff --git %s %s\n", a, b)
	from, to := headerName("a/", p), headerName("b/", p)
	switch {
	case old.Mode == 0:
		fmt.Fprintf(out, "new file mode %o\n", now.Mode)
		a, from = "/dev/null", "/dev/null"
	case now.Mode == 0:
		fmt.Fprintf(out, "deleted file mode %o\n", old.Mode)
		b, to = "/dev/null", "/dev/null"
	case old.Mode != now.Mode:
		fmt.Fprintf(out, "old mode %o\nnew mode %o\n", old.Mode, now.Mode)
	}
	switch {
	case old.Unread || now.Unread:
		fmt.Fprintf(out, "Files %s and %s differ (not shown: cannot be read, or a program holds a lease)\n", a, b)
	case old.Huge || now.Huge:
		if old.Mode == 0 || now.Mode == 0 || old.Size != now.Size || old.Mode == now.Mode {
			fmt.Fprintf(out, "Files %s and %s differ (too large to show: %d and %d bytes)\n", a, b, old.Size, now.Size)
		}
	case bytes.Equal(old.Text, now.Text):
	case IsBinary(old.Text) || IsBinary(now.Text):
		fmt.Fprintf(out, "Binary files %s and %s differ\n", a, b)
	default:
		fmt.Fprintf(out, "--- %s\n+++ %s\n", from, to)
		out.Write(Hunks(old.Text, now.Text))
	}
}

// Hunks returns the unified-diff hunks that turn old into new, without headers.
func Hunks(old, new []byte) []byte {
	// The library prints three header lines with the names it is given; ours
	// need git's rules for odd names, so its own are cut off.
	out := diff.Diff("a", old, "b", new)
	for range 3 {
		_, out, _ = bytes.Cut(out, []byte("\n"))
	}
	return out
}

// IsBinary is git's rule: a NUL among the first 8000 bytes.
func IsBinary(b []byte) bool {
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
