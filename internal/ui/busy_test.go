package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// begin is Busy without the wait: ticks are made by hand.
func begin(what string, to *os.File) *line {
	return &line{what: what, to: to, begun: time.Now(), timer: time.NewTimer(time.Hour)}
}

func TestBusyFile(t *testing.T) {
	for ticks, want := range []string{"", "coffer: making the bed …\n"} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		l := begin("making the bed", out)
		for range ticks {
			l.tick()
			l.tick()
		}
		l.done()
		l.done()
		l.tick() // the timer had fired already
		out.Close()
		if got, err := os.ReadFile(out.Name()); string(got) != want || err != nil {
			t.Errorf("printed %q, %v", got, err)
		}
	}
}

func TestTerminal(t *testing.T) {
	user, ours, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if err := pty.Setsize(ours, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	l := begin(strings.Repeat("long ", 20), ours)
	l.tick()
	l.done()
	ours.Close()
	got := string(all(user))
	lines := strings.Split(got, erase)
	if len(lines) != 3 || lines[0] != "" || lines[2] != "" {
		t.Fatalf("said %q", got)
	}
	if len([]rune(lines[1])) > 40 || !strings.HasPrefix(lines[1], "coffer: long long") || !strings.HasSuffix(lines[1], "…") {
		t.Errorf("shows %q", lines[1])
	}
}

// all reads a terminal until its other end is closed, which is an error.
func all(f *os.File) (text []byte) {
	for b := make([]byte, 512); ; {
		n, err := f.Read(b)
		text = append(text, b[:n]...)
		if err != nil {
			return text
		}
	}
}
