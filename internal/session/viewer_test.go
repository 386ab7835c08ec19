package session

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
)

// watcher is the other end of a viewer. Nothing is read of it before it is asked to.
type watcher struct {
	*viewer
	t    *testing.T
	far  net.Conn
	read *wire.FrameReader
	seen bytes.Buffer
}

func attached(t *testing.T, k *Session) *watcher {
	near, far := net.Pipe()
	w := &watcher{viewer: newViewer(near), t: t, far: far, read: wire.NewFrameReader(far)}
	t.Cleanup(func() { far.Close() })
	if !k.add(w.viewer, wire.Size{}) {
		t.Fatal("a viewer is not let in")
	}
	return w
}

// until reads until a frame of a kind has come, with a text in what was printed by then.
func (w *watcher) until(kind byte, text string) {
	w.t.Helper()
	for {
		got, body, err := w.read.Next()
		if err != nil {
			w.t.Errorf("waiting for %q: %v", text, err)
			return
		}
		if got == wire.Output {
			w.seen.Write(body)
		}
		if got == kind && strings.Contains(w.seen.String(), text) {
			return
		}
	}
}

func newSession() *Session {
	viewerTime = time.Hour // machines are slow, too
	return &Session{past: terminal.NewReplay(), size: wire.Size{Rows: 24, Cols: 80}}
}

// A viewer that takes nothing holds up neither the program nor who else looks at it; when
// it takes something again, it is shown what there is.
func TestSlowViewer(t *testing.T) {
	k := newSession()
	fmt.Fprint(k, "from before\r\n")
	slow, quick := attached(t, k), attached(t, k)
	quick.until(wire.Output, "from before")
	line := strings.Repeat("x", 1000)
	fmt.Fprint(k, "\x1b[?2004h") // which its terminal has to be told again
	for i := range 4 * maxBehind / len(line) {
		fmt.Fprintf(k, "%s %d;\r\n", line, i)
		quick.until(wire.Output, fmt.Sprintf(" %d;", i))
		quick.seen.Reset()
	}
	fmt.Fprint(k, "\x1b[?2004lthe last line\r\n")
	quick.until(wire.Output, "the last line")
	slow.until(wire.Output, "the last line")
	seen := slow.seen.String()
	if !strings.HasPrefix(seen, "from before\r\n") || len(seen) > 3*maxBehind {
		t.Errorf("the slow one sees %d bytes, beginning with %.40q", len(seen), seen)
	}
	if _, again, ok := strings.Cut(seen, clearScreen); !ok || !strings.HasSuffix(again, "the last line\r\n") || strings.Contains(again, "\x1b[?2004h") {
		t.Error("the slow one is not shown the screen anew")
	}
	if before, _, _ := strings.Cut(seen, clearScreen); !strings.Contains(before[len(before)-100:], "\x18") || !strings.Contains(before[len(before)-100:], "\x1b[?2004l") {
		t.Error("the terminal of the slow one is not put in order")
	}
	fmt.Fprint(k, "and on\r\n")
	slow.until(wire.Output, "and on")
	quick.until(wire.Output, "and on")
}

// The end is told to all, and does not wait for who does not listen.
func TestSlowViewerEnd(t *testing.T) {
	k := newSession()
	behind, listens := attached(t, k), attached(t, k)
	behind.until(wire.Started, "")
	listens.until(wire.Started, "")
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		listens.until(wire.Exited, "over")
	}()
	for range 40 {
		k.Write(bytes.Repeat([]byte("y"), maxBehind/16))
	}
	fmt.Fprint(k, "\nover\r\n")
	k.end()
	k.Tell(func(out *wire.FrameWriter) error { return out.Exited(wire.Exit{Code: 7}) })
	<-heard
	parted := make(chan struct{})
	go func() { k.Close(); close(parted) }()
	behind.until(wire.Exited, "over") // also by who was behind, after it has seen the end
	for _, w := range []*watcher{behind, listens} {
		if _, _, err := w.read.Next(); err == nil {
			t.Error("there is more after the end")
		}
	}
	<-parted
	near, far := net.Pipe()
	defer near.Close()
	go func() { io.Copy(io.Discard, far) }()
	if k.add(newViewer(near), wire.Size{}) {
		t.Error("one is let in after the end")
	}
}

// Who did not hear in time that the program had stopped does not stop for it when it runs
// again, but is told of the next time.
func TestStoppedTooLate(t *testing.T) {
	k := newSession()
	late, quick := attached(t, k), attached(t, k)
	quick.until(wire.Started, "")
	k.halt()
	quick.until(wire.Message, "")
	k.back(quick.viewer)
	fmt.Fprint(k, "it runs\r\n")
	late.never(wire.Message, "it runs")
	k.halt()
	late.until(wire.Message, "")
	quick.until(wire.Message, "it runs")
}

// never reads until a text was printed, before which no frame of a kind may come.
func (w *watcher) never(kind byte, text string) {
	w.t.Helper()
	for !strings.Contains(w.seen.String(), text) {
		got, body, err := w.read.Next()
		if err != nil || got == kind {
			w.t.Fatalf("a frame of kind %d before %q: %v", got, text, err)
		}
		if got == wire.Output {
			w.seen.Write(body)
		}
	}
}
