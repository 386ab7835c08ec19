package mask

import "fmt"

// Whoever writes into a workspace can write lines that are hard to match, and files to
// match them with. No line takes more steps than its length times the path's, but there may
// be thousands of both. So steps are counted, and where it goes beyond what anybody needs
// the answer is the safe one: a single file that is too much is hidden, and a whole tree is
// not shown at all. It is steps that are counted and not time, so that the answer is always
// the same.
const (
	maxEach = 1 << 18 // for one entry
	maxAll  = 1 << 26 // for a look through a tree: a second or so
	perFile = 256     // and for each entry so many more
)

// effort is what matching has taken.
type effort struct {
	steps int
	slow  *Rule // one that was too much
}

func (e *effort) add(more effort) {
	e.steps += more.steps
	if more.slow != nil {
		e.slow = more.slow
	}
}

// exceeds says that it was too much for so many entries.
func (e *effort) exceeds(entries int) bool { return e.steps > maxAll+perFile*entries }

// tooMuch is the rule that hides what cannot be told.
func (e *effort) tooMuch(r *Rule) *Rule {
	e.slow = r
	return &Rule{Text: r.Text + " (too hard to tell)", From: r.From, base: r.base}
}

// A SlowError says that lines are too hard to match for all files of a tree.
type SlowError struct {
	Root string
	From string // the line, if it is one
}

func (e *SlowError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("the lines that say what to hide are too many for the files in %s", e.Root)
	}
	return fmt.Sprintf("%s: the line is too hard to match for the files in %s", e.From, e.Root)
}

// excess is the error for an effort that was too much.
func (e *effort) excess(root string) error {
	if e.slow != nil {
		return &SlowError{root, e.slow.From}
	}
	return &SlowError{Root: root}
}
