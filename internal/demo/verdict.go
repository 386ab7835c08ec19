package demo

// A verdict is how a misdeed ended.
type verdict int

const (
	stopped verdict = iota
	through         // the victim was harmed
	untried         // the agent never reported it, so nothing is known
	moot            // this machine refuses it without us
)

// An attempt is a misdeed on one stage: what the agent was told by the kernel, and
// what became of the victim.
type attempt struct {
	report *report // nil if the agent did not get to it
	harmed bool
}

// judge compares the attempt in the sandbox with the same one outside. Harm is harm,
// whatever the control says.
func judge(control, inside attempt) verdict {
	switch {
	case inside.harmed:
		return through
	case inside.report == nil:
		return untried
	case !control.harmed:
		return moot
	}
	return stopped
}

// A result is a line of the table.
type result struct {
	title   string
	verdict verdict
	outside string // how it went without a sandbox
	wall    string // what stopped it
}

// A tally counts.
type tally struct{ tried, stopped, moot, failed int }

func count(results []result) (t tally) {
	for _, r := range results {
		t.tried++
		switch r.verdict {
		case stopped:
			t.stopped++
		case moot:
			t.moot++
		default:
			t.failed++
		}
	}
	return t
}
