package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestBusyFile(t *testing.T) {
	for ticks, want := range []string{"", "coffer: making the bed …\n"} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		p := newProgress(out)
		done := busy(p, "making the bed", time.Hour)
		for range ticks {
			p.Show("making the bed", "1s")
			p.Show("making the bed", "2s")
		}
		done()
		done()
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
	p := newProgress(ours)
	p.Show(strings.Repeat("long ", 20), "1s")
	p.Clear()
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
