package demo

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestJudge(t *testing.T) {
	told := &report{Name: "x", Errno: 1}
	for _, c := range []struct {
		name            string
		control, inside attempt
		want            verdict
	}{
		{"stopped", attempt{told, true}, attempt{told, false}, stopped},
		{"harmed", attempt{told, true}, attempt{told, true}, through},
		{"harmed without a word", attempt{told, true}, attempt{nil, true}, through},
		{"harmed inside only", attempt{told, false}, attempt{told, true}, through},
		{"silent", attempt{told, true}, attempt{nil, false}, untried},
		{"refused everywhere", attempt{told, false}, attempt{told, false}, moot},
		{"no control", attempt{nil, false}, attempt{told, false}, moot},
	} {
		if got := judge(c.control, c.inside); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// show prints a table to a string.
func show(color bool, results ...result) string {
	var b bytes.Buffer
	s := &screen{ctx: context.Background(), w: &b, color: color}
	s.misdeeds(results)
	s.summary(count(results), time.Second)
	return b.String()
}

func TestScreenShowsWhatGotThrough(t *testing.T) {
	fine := result{title: "read a key", outside: "works", wall: "not there"}
	bad := result{title: "plant a hook", outside: "works", verdict: through}
	got := show(true, fine, bad)
	for _, want := range []string{"\x1b[1;31mplant a hook", "got through", "2 misdeeds, 1 stopped, 1 NOT STOPPED"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if got := show(false, fine, bad); strings.Contains(got, "\x1b") {
		t.Errorf("colour where none was asked for:\n%q", got)
	}
	if got := show(false, fine); !strings.Contains(got, "1 misdeeds, all stopped") {
		t.Errorf("nothing got through, but:\n%s", got)
	}
}

func TestScreenDoesNotCountWhatProvesNothing(t *testing.T) {
	got := show(false, result{title: "a", outside: "works"}, result{title: "b", outside: "refused", verdict: moot})
	if !strings.Contains(got, "2 misdeeds, 1 stopped, 1 impossible here anyway") {
		t.Errorf("got\n%s", got)
	}
}

// What comes from inside neither breaks the layout nor reaches the terminal.
func TestScreenKeepsItsWidth(t *testing.T) {
	got := show(false, result{title: strings.Repeat("é", 90), outside: "works", wall: strings.Repeat("\x1b]0;", 40)})
	for l := range strings.SplitSeq(got, "\n") {
		if n := utf8.RuneCountInString(l); n > 80 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("an escape sequence got through: %q", got)
	}
}
