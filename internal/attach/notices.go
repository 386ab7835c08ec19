package attach

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
)

// Notices are lines for the user about what a program does.
type Notices interface {
	// Watch has every line shown, one at a time, until stop is called, which returns
	// when all that came so far are. A program that failed may have done so because
	// of what one of them says.
	Watch(show func(line string)) (stop func(failed bool))
}

// Notes prints what a supervisor says when a program has ended, if there is somebody to
// say something.
func Notes(expected bool) func(string) {
	if !expected {
		return nil
	}
	return Note
}

// Note prints a line for the user.
func Note(line string) { fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(line)) }

const (
	// maxHeld is how many lines are kept while a program has the whole screen.
	maxHeld = 20
	// maxInFile is how many lines go to a file or a pipe, each once: there they cannot
	// be told from the program's.
	maxInFile = 20
)

// announcer writes what a program prints to the screen, and between that lines of our
// own. A program that has the whole screen to itself is not disturbed: they wait until
// it gives it back, unless they are urgent; then it is to draw its screen anew.
type announcer struct {
	to    io.Writer   // where the program's output goes
	plain io.Writer   // where our lines go
	full  func() bool // whether the program has the whole screen; nil if there is no screen
	raw   bool        // the terminal is in raw mode
	anew  func()      // has the program draw its screen anew; nil if there is no screen

	mu    sync.Mutex
	held  []string
	shown map[string]bool // on what is not a terminal
	open  bool            // the program has begun a line and not ended it
}

func (a *announcer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.to.Write(p)
	if n > 0 {
		a.open = p[n-1] != '\n'
	}
	if len(a.held) > 0 {
		a.release()
	}
	return n, err
}

func (a *announcer) announce(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) < maxHeld {
		a.held = append(a.held, line)
	}
	a.release()
}

// finish writes what is left, now that nobody has the screen.
func (a *announcer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = nil
	a.release()
}

// away ends the line that the program has begun, and will not end.
func (a *announcer) away() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open {
		io.WriteString(a.plain, a.end())
	}
	a.open = false
}

// release writes the lines that waited, if nobody has the screen, or they are urgent. The lock is held.
func (a *announcer) release() {
	full := a.full != nil && a.full()
	var later []string
	for _, line := range a.held {
		text, urgent := strings.CutPrefix(line, wire.Urgent)
		switch {
		case full && !urgent:
			later = append(later, line)
		case a.news(text):
			fmt.Fprintf(a.plain, "%scoffer: %s%s", a.start(), text, a.end())
			a.open = false
			if full {
				a.anew()
			}
		}
	}
	a.held = later
}

// news says whether a line is to be shown.
func (a *announcer) news(line string) bool {
	if a.raw {
		return true
	}
	if a.shown[line] || len(a.shown) == maxInFile {
		return false
	}
	if a.shown == nil {
		a.shown = map[string]bool{}
	}
	a.shown[line] = true
	return true
}

// start gets away from what the program has begun to write. On a terminal it may be
// anywhere.
func (a *announcer) start() string {
	if a.raw || a.open {
		return a.end()
	}
	return ""
}

func (a *announcer) end() string {
	if a.raw {
		return "\r\n"
	}
	return "\n"
}
