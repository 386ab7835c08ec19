package ui

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
)

// patience is how long work may take without a word.
const patience = time.Second

// silent, if it is not empty, has [Busy] print nothing. Only the linker can set it, for tests of
// other output on machines that may stand still for a second at any point:
// go build -ldflags '-X …/internal/ui.silent=yes'.
var silent string

// Busy tells the user what takes long, in words that follow "coffer:". Nothing is printed in the
// first second. After that a terminal shows what is being done and for how long, until done is
// called; a file or a pipe gets one line. Nobody else should write to standard error meanwhile.
func Busy(what string) (done func()) { return start(what, false) }

// BusyBefore is Busy for work after which a program gets the terminal. What the user types
// meanwhile is for the program, and is not echoed into the line if ctx is from [HearsSignals].
func BusyBefore(ctx context.Context, what string) (done func()) {
	return start(what, ctx.Value(heard{}) != nil)
}

func start(what string, mute bool) (done func()) {
	if silent != "" {
		return func() {}
	}
	l := &line{what: what, to: os.Stderr, begun: time.Now(), mute: mute}
	l.timer = time.AfterFunc(patience, l.tick)
	return l.done
}

type heard struct{}

// HearsSignals marks a context that signals cancel, instead of ending this process: so what was
// changed at the terminal is put back.
func HearsSignals(ctx context.Context) context.Context {
	return context.WithValue(ctx, heard{}, true)
}

// line is what the user sees.
type line struct {
	what  string
	mute  bool // what is typed is not shown
	to    *os.File
	begun time.Time

	mu    sync.Mutex
	timer *time.Timer
	shown *Progress       // nil until it is
	typed *terminal.State // as the terminal was before it was muted; nil if it is not
	over  bool
}

func (l *line) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	if l.shown == nil {
		if l.shown = newProgress(l.to); l.shown.live && l.mute {
			l.typed = terminal.Mute(int(l.to.Fd()))
		}
	}
	l.shown.Show(l.what, time.Since(l.begun).Truncate(time.Second).String())
	if l.shown.live {
		l.timer.Reset(patience)
	}
}

func (l *line) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	l.timer.Stop()
	if l.shown != nil {
		l.shown.Clear()
		_ = l.typed.Restore()
	}
}
