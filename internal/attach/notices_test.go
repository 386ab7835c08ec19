package attach

import (
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/wire"
)

// A program that has the whole screen is disturbed by what is urgent alone, and draws it anew.
func TestUrgent(t *testing.T) {
	var screen strings.Builder
	full, drawn := true, 0
	a := &announcer{to: &screen, plain: &screen, raw: true, full: func() bool { return full }, anew: func() { drawn++ }}
	a.announce("a")
	a.announce(wire.Urgent + "b")
	if got := screen.String(); got != "\r\ncoffer: b\r\n" || drawn != 1 {
		t.Errorf("%q, drawn anew %d times", got, drawn)
	}
	full = false
	a.announce(wire.Urgent + "c")
	if got := screen.String(); got != "\r\ncoffer: b\r\n\r\ncoffer: a\r\n\r\ncoffer: c\r\n" || drawn != 1 {
		t.Errorf("%q, drawn anew %d times", got, drawn)
	}
}
