package ui

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
)

// patience is how long work may take without a word.
const patience = time.Second

// silent, if it is not empty, has nothing said. Only the linker can set it, for tests of what else
// is said, on machines that may stand still for a second at any point:
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
	l := &line{what: terminal.Escape(what), to: os.Stderr, begun: time.Now(), mute: mute}
	l.timer = time.AfterFunc(patience, l.tick)
	return l.done
}

type heard struct{}

// HearsSignals marks a context that signals cancel, instead of ending this process: so what was
// changed at the terminal is put back.
func HearsSignals(ctx context.Context) context.Context { return context.WithValue(ctx, heard{}, true) }

// line is what the user sees.
type line struct {
	what  string
	mute  bool // what is typed is not shown
	to    io.Writer
	begun time.Time

	mu    sync.Mutex
	timer *time.Timer
	shown bool
	tty   bool
	typed *terminal.State // as it was before it was not shown; nil if it is
	over  bool
}

// erase goes to the beginning of the line and clears it.
const erase = "\r\x1b[K"

func (l *line) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	if !l.shown {
		f, ok := l.to.(*os.File)
		l.shown, l.tty = true, ok && terminal.IsTerminal(int(f.Fd()))
		if l.tty && l.mute {
			l.typed = terminal.Mute(int(f.Fd()))
		}
	}
	if !l.tty {
		fmt.Fprintf(l.to, "coffer: %s …\n", l.what)
		return
	}
	fmt.Fprintf(l.to, "%scoffer: %s … %ds", erase, l.fitting(), int(time.Since(l.begun).Seconds()))
	l.timer.Reset(patience)
}

// fitting shortens the words to what has room: a line that is wrapped cannot be erased.
func (l *line) fitting() string {
	columns, _, err := terminal.Size(int(l.to.(*os.File).Fd()))
	if err != nil || columns == 0 {
		columns = 80
	}
	room := max(columns-len("coffer:  … 99999s"), 1)
	if words := []rune(l.what); len(words) > room {
		cut := string(words[:room])
		if at := strings.LastIndexByte(cut, ' '); at > 0 {
			cut = cut[:at]
		}
		return cut
	}
	return l.what
}

func (l *line) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	l.timer.Stop()
	if l.shown && l.tty {
		io.WriteString(l.to, erase)
		_ = l.typed.Restore()
	}
}
