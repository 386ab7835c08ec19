package attach

import "testing"

func TestLeaveKeys(t *testing.T) {
	for _, c := range []struct {
		typed   string
		pressed int
		only    bool
	}{
		{"", 0, false},
		{"\x1c", 1, true},
		{"\x1c\x1c", 2, true},
		{"\x1cx", 1, false},
		{"x\x1c\x1c", 0, false},
		{"\x1b[92;5u", 1, true},
		{"\x1b[92;5:1u\x1b[92;5:3u\x1b[92;5:1u", 2, true},
		{"\x1b[92:124;69:1u", 1, true},                      // caps lock
		{"\x1b[57442;5u\x1b[92;5u\x1b[57442;1:3u", 1, true}, // Ctrl by itself
		{"\x1b[27;5;92~", 1, true},
		{"\x1b[92;1u", 0, false}, // without Ctrl
		{"\x1b[92;6u", 0, false}, // with Shift too
		{"\x1b[93;5u", 0, false},
		{"\x1b[A", 0, false},
		{"\x1b[200~\x1c\x1c\x1b[201~", 0, false},
		{"\x1b[<0;1;1M", 0, false},
		{"\x1b[92;5", 0, false},
		{"\x1b[999999999999999999999;5u", 0, false},
		{"\x1b[1;2;3;4;5;6u", 0, false},
	} {
		if pressed, only := leaveKeys([]byte(c.typed)); pressed != c.pressed || only != c.only {
			t.Errorf("%q: %d, %v; want %d, %v", c.typed, pressed, only, c.pressed, c.only)
		}
	}
}
