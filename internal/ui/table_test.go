package ui

import (
	"strings"
	"testing"
)

// TestTableFits leaves out what says nothing, then what can be spared, and no more.
func TestTableFits(t *testing.T) {
	var all Table
	all.Add("ID", "NAME", "PORTS", "PLACE")
	all.Add("k3vq", "parser", "-", "/home/ada/parser")
	all.Add("9xyz", "ü", "-", "/tmp/a\x1b[2J")
	for _, test := range []struct {
		width int
		want  string
	}{
		{80, "ID    NAME    PLACE\nk3vq  parser  /home/ada/parser\n9xyz  ü       "},
		{30, "ID    NAME    PLACE\nk3vq  parser  /home/ada/parser\n9xyz  ü       "},
		{29, "ID    NAME\nk3vq  parser\n9xyz  ü\n"},
		{9, "NAME\nparser\nü\n"},
		{1, "NAME\nparser\nü\n"},
	} {
		var b strings.Builder
		all.Fit(test.width, "PLACE", "ID").Print(&b)
		if !strings.HasPrefix(b.String(), test.want) || strings.Contains(b.String(), "\x1b") {
			t.Errorf("in %d columns:\n%swant\n%s", test.width, b.String(), test.want)
		}
	}
	var b strings.Builder
	all.Print(&b)
	if !strings.HasPrefix(b.String(), "ID    NAME    PORTS  PLACE\n") {
		t.Errorf("a pipe gets\n%s", b.String())
	}
}
