package escape

import (
	"fmt"
	"strings"
	"testing"
)

// A verdict is what an attempt came to.
type verdict string

const (
	contained    verdict = "contained"
	broken       verdict = "BROKEN"
	escaped      verdict = "ESCAPED"
	uncontrolled verdict = "no control"
)

// A row is one attempt in the report.
type row struct {
	n, name         string
	control, inside string
	verdict         verdict
	why             string
}

// A report collects rows for one user.
type report struct {
	who  string
	rows []row
	// open are walls that Coffer does not claim to have.
	open []string
}

func (r *report) add(rows ...row) { r.rows = append(r.rows, rows...) }

// judge adds an attempt of which three things are known: whether the control got
// through, whether the wall held, and what to show of both.
func (r *report) judge(n, name string, control bool, outside string, held bool, inside string) {
	v := contained
	switch {
	case !held:
		v = escaped
	case !control:
		v = broken
	}
	r.add(row{n: n, name: name, control: outside, inside: inside, verdict: v})
}

func (r *report) count(v verdict) (n int) {
	for _, row := range r.rows {
		if row.verdict == v {
			n++
		}
	}
	return n
}

func (r *report) counts() string {
	return fmt.Sprintf("%d contained, %d broken, %d escaped, %d without control",
		r.count(contained), r.count(broken), r.count(escaped), r.count(uncontrolled))
}

// show fails the test for every attempt that was not contained, and prints the table if
// it was asked for: of a failure in a long log, only the failure is of interest.
func (r *report) show(t *testing.T) {
	t.Helper()
	for _, row := range r.rows {
		if row.verdict == escaped || row.verdict == broken {
			t.Errorf("%s %s: %s: outside %s, inside %s %s", row.n, row.name, row.verdict, row.control, row.inside, row.why)
		}
	}
	if !testing.Verbose() {
		t.Log(r.counts())
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%-6s %-62s %-14s %-16s %s\n", r.who, "no.", "attempt", "outside", "inside", "verdict")
	for _, row := range r.rows {
		fmt.Fprintf(&b, "%-6s %-62s %-14s %-16s %s", row.n, cut(row.name, 62), cut(row.control, 14), cut(row.inside, 16), row.verdict)
		if row.why != "" {
			fmt.Fprintf(&b, " (%s)", row.why)
		}
		b.WriteByte('\n')
	}
	for _, o := range r.open {
		fmt.Fprintln(&b, "not claimed:", o)
	}
	t.Log(b.String() + r.counts())
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n-1] + "…"
	}
	return s
}
