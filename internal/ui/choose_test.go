package ui

import (
	"errors"
	"os"
	"strings"
	"syscall"
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
	in := []byte("a\x1b[A\x1bOB\x7fü\r\x1b[1;5C\x1b[200~\xff\x01")
	var got []string
	for len(in) > 0 {
		var k string
		if k, in = next(in, true); k == "" {
			break
		}
		got = append(got, k)
	}
	if s := strings.Join(got, ","); s != "a,up,down,erase,ü,enter,unknown key,unknown key,unknown key,unknown key" {
		t.Error(s)
	}
	for _, part := range []string{"\x1b", "\x1b[", "\x1b[1", "\xc3"} {
		if k, rest := next([]byte(part), false); k != "" || string(rest) != part {
			t.Errorf("%q is %q", part, k)
		}
	}
	if k, _ := next([]byte("\x1b"), true); k != "cancel" {
		t.Error(k)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x1b[A\x1b[9999999999999999999999999999999999999999~"))
	f.Fuzz(func(t *testing.T, in []byte) {
		l := newList("?", []Item{{"a", "b"}, {"c"}}, 3)
		for len(in) > 0 {
			k, rest := next(in, true)
			if len(rest) >= len(in) {
				t.Fatalf("%q takes nothing off", in)
			}
			l.key(k)
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
	l := newList("Which?", items, 3)
	for _, k := range []string{"down", "down", "down", "down"} {
		l.key(k)
	}
	if got := strings.Join(l.lines(40), "|"); got != "Which?|  three  coffer/three|  four   coffer/four|> five   coffer/five" {
		t.Error(got)
	}
	l.key("up")
	l.key("page up")
	if l.at != 0 || l.top != 0 {
		t.Error(l.at, l.top)
	}
	l.key("page down")
	l.key("page down")
	if l.at != 6 || l.key("enter") != chosen {
		t.Error(l.at)
	}
	for _, k := range []string{"s", "e", "v"} {
		l.key(k)
	}
	if got := strings.Join(l.lines(14), "|"); got != "Which?: sev|> seven  cof…" {
		t.Error(got)
	}
	l.key("q")
	if l.key("enter") != going || !strings.Contains(strings.Join(l.lines(40), "|"), "nothing matches") {
		t.Error("chose nothing")
	}
	l.key("erase all")
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
			i, err := Choose(theirs, "Which?", []Item{{"one"}, {"two"}, {"three\x1b[2J"}})
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
	if _, err := Choose(os.Stdin, "x", nil); err == nil {
		t.Error("chose without a terminal")
	}
}

// A terminal that changes its size has the list drawn anew, from where it began.
func TestResize(t *testing.T) {
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	size := func(rows, cols uint16) {
		if err := pty.Setsize(ours, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
			t.Fatal(err)
		}
	}
	size(24, 80)
	done := make(chan error, 1)
	go func() {
		_, err := Choose(theirs, "Which?", []Item{{"one that is rather long"}, {"two"}})
		done <- err
	}()
	bytes := make(chan string, 100)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := ours.Read(buf)
			if err != nil {
				return
			}
			bytes <- string(buf[:n])
		}
	}()
	shown, late := "", time.After(time.Minute)
	see := func(what string) {
		for !strings.Contains(shown, what) {
			select {
			case b := <-bytes:
				shown += b
			case <-late:
				t.Fatalf("%q, want %q", shown, what)
			}
		}
		shown = ""
	}
	see("two")
	size(24, 12)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	// The three lines, one of them with the keys, are on nine rows now.
	see("\x1b[8A\r\x1b[JWhich?\r\n\x1b[7m> one that…\x1b[0m\r\n  two")
	if _, err := ours.WriteString("\r"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
