package ui

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestMatch(t *testing.T) {
	for query, want := range map[string]bool{"": true, "par": true, "PARS fix": true, "prs": false, "parser none": false} {
		if match(query, "fix the parser") != want {
			t.Errorf("%q matches: %v", query, !want)
		}
	}
}

func TestKeys(t *testing.T) {
	in := []byte("a\x1b[A\x1bOB\x7fü\r\x1b[1;5C\x1b[200~\xff\x01\x1b[1")
	var got []string
	for len(in) > 0 {
		var k string
		k, in = nextKey(in)
		got = append(got, k)
	}
	want := []string{"a", "\x1b[A", "\x1bOB", "\x7f", "ü", "\r", "\x1b[1;5C", "\x1b[200~", "\xff", "\x01", "\x1b[1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if k, _ := nextKey([]byte("\x1b")); k != "\x1b" {
		t.Error(k)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x1b[A\x1b[9999999999999999999999999999999999999999~"))
	f.Fuzz(func(t *testing.T, in []byte) {
		l := newList("?", []Item{{"a", "b"}, {"c"}})
		for len(in) > 0 {
			k, rest := nextKey(in)
			if len(rest) >= len(in) {
				t.Fatalf("%q takes nothing off", in)
			}
			l.press(k)
			l.lines(20)
			in = rest
		}
	})
}

func TestList(t *testing.T) {
	var items []Item
	for _, n := range strings.Fields("one two three four five six seven") {
		items = append(items, Item{n, "coffer/" + n})
	}
	l := newList("Which?", items)
	l.height = 3
	const down, up = "\x1b[B", "\x1b[A"
	for range 4 {
		l.press(down)
	}
	if got := strings.Join(l.lines(40), "|"); got != "Which?|  three  coffer/three|  four   coffer/four|\x1b[7m> five   coffer/five\x1b[0m" {
		t.Error(got)
	}
	l.press(up)
	l.press("\x1b[5~")
	if l.at != 0 || l.top != 0 {
		t.Error(l.at, l.top)
	}
	l.press("\x1b[6~")
	l.press("\x1b[6~")
	if l.at != 6 {
		t.Error(l.at)
	}
	for _, k := range []string{"s", "e", "v"} {
		l.press(k)
	}
	if got := strings.Join(l.lines(14), "|"); got != "Which?: sev|\x1b[7m> seven  cof…\x1b[0m" {
		t.Error(got)
	}
	l.press("q")
	if len(l.hits) != 0 || !strings.Contains(strings.Join(l.lines(40), "|"), "nothing matches") {
		t.Error(l.hits)
	}
	l.press("\x15")
	if len(l.hits) != 7 {
		t.Error(l.hits)
	}
}

// On a real terminal: it is drawn, keys are heard, and nothing is left.
func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want int
		err  error
	}{{"\x1b[B\x1b[B\r", 2, nil}, {"tw\r", 1, nil}, {"\x03", 0, ErrInterrupted}, {"\x1b", 0, ErrCancelled}, {"zzz\r\x15\x1bOB\n", 1, nil}} {
		ours, theirs, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			i   int
			err error
		}
		done := make(chan answer, 1)
		go func() {
			i, err := Choose(context.Background(), theirs, "Which?", []Item{{"one"}, {"two"}, {"three\x1b[2J"}})
			done <- answer{i, err}
		}()
		screen := &strings.Builder{}
		seen := make(chan struct{})
		go func() {
			buf := make([]byte, 4096)
			for once := false; ; {
				n, err := ours.Read(buf)
				screen.Write(buf[:n])
				if !once && strings.Contains(screen.String(), "three") {
					close(seen)
					once = true
				}
				if err != nil {
					return
				}
			}
		}()
		<-seen
		if _, err := ours.WriteString(tt.keys); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-done:
			if got.i != tt.want || !errors.Is(got.err, tt.err) {
				t.Errorf("%q: %d, %v", tt.keys, got.i, got.err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q: no answer", tt.keys)
		}
		theirs.Close()
		ours.Close()
	}
	if _, err := Choose(context.Background(), os.Stdin, "x", nil); err == nil {
		t.Error("chose without a terminal")
	}
}
