package supervisor

import "testing"

// Reasons to wait come and go in any order, and none has programs go on while there is another. While
// files are to be hidden, nobody is told that it may take long.
func TestHolding(t *testing.T) {
	tree := func(n int) func(*holding) { return func(h *holding) { h.trees += n } }
	disk := func(yes bool, why string) func(*holding) { return func(h *holding) { h.disk(yes, why) } }
	h := &holding{}
	for i, step := range []struct {
		change func(*holding)
		yes    bool
		why    string
	}{
		{tree(+1), true, ""},
		{disk(true, "a is full"), true, ""},
		{tree(-1), true, "a is full"},
		{disk(true, "b is full"), true, "a is full"},
		{tree(+1), true, ""},
		{disk(false, "a is full"), true, ""},
		{tree(+1), true, ""},
		{tree(-1), true, ""},
		{tree(-1), true, "b is full"},
		{disk(false, "b is full"), false, ""},
	} {
		step.change(h)
		if yes, why := h.held(); yes != step.yes || why != step.why {
			t.Errorf("step %d: %v %q, want %v %q", i, yes, why, step.yes, step.why)
		}
	}
}
