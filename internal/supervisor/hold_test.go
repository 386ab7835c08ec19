package supervisor

import "testing"

// Reasons to wait come and go in any order, and none has programs go on while there is another. While
// files are to be hidden, nobody is told that it may take long.
func TestHolding(t *testing.T) {
	tree := func(n int) func(*holding) { return func(h *holding) { h.trees += n } }
	disk := func(n int) func(*holding) { return func(h *holding) { h.disks += n } }
	h := &holding{why: "full"}
	for i, step := range []struct {
		change func(*holding)
		yes    bool
		why    string
	}{
		{tree(+1), true, ""},
		{disk(+1), true, ""},
		{tree(-1), true, "full"},
		{disk(+1), true, "full"},
		{tree(+1), true, ""},
		{disk(-1), true, ""},
		{tree(+1), true, ""},
		{tree(-1), true, ""},
		{tree(-1), true, "full"},
		{disk(-1), false, ""},
	} {
		step.change(h)
		if yes, why := h.held(); yes != step.yes || why != step.why {
			t.Errorf("step %d: %v %q, want %v %q", i, yes, why, step.yes, step.why)
		}
	}
}
