package ui

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// begin is Busy without the wait: ticks are made by hand.
func begin(what string, to io.Writer) *line {
	return &line{what: what, to: to, begun: time.Now(), timer: time.NewTimer(time.Hour)}
}

func TestFast(t *testing.T) {
	var out bytes.Buffer
	l := begin("something", &out)
	l.done()
	l.tick() // the timer had fired already
	if out.Len() > 0 {
		t.Errorf("said %q", &out)
	}
}

func TestFile(t *testing.T) {
	var out bytes.Buffer
	l := begin("making the bed", &out)
	l.tick()
	l.done()
	l.done()
	if got := out.String(); got != "coffer: making the bed …\n" {
		t.Errorf("said %q", got)
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
	l.timer.Stop()
	l.tick()
	l.done()
	ours.Close()
	got := string(all(user))
	lines := strings.Split(got, erase)
	if len(lines) != 4 || lines[0] != "" || lines[3] != "" {
		t.Fatalf("said %q", got)
	}
	if len([]rune(lines[1])) > 40 || !strings.HasPrefix(lines[1], "coffer: long long") || !strings.HasSuffix(lines[1], "… 0s") {
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
