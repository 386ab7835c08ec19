package supervisor

import "testing"

// Reasons to wait come and go in any order, and none has programs go on while there is another.
func TestHolding(t *testing.T) {
	disk := func(yes bool, why string) func(*holding) { return func(h *holding) { h.disk(yes, why) } }
	h := &holding{}
	for i, step := range []struct {
		change func(*holding)
		yes    bool
		why    string
	}{
		{disk(true, "a is full"), true, "a is full"},
		{disk(true, "b is full"), true, "a is full"},
		{disk(false, "a is full"), true, "b is full"},
		{disk(false, "b is full"), false, ""},
	} {
		step.change(h)
		if yes, why := h.held(); yes != step.yes || why != step.why {
			t.Errorf("step %d: %v %q, want %v %q", i, yes, why, step.yes, step.why)
		}
	}
}
