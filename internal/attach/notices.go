package attach

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/terminal"
)

// Notes prints what a supervisor says when a program has ended, if there is somebody to
// say something.
func Notes(expected bool) func(string) {
	if !expected {
		return nil
	}
	return func(line string) { fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(line)) }
}

// maxHeld is how many lines are kept while a program has the whole screen.
const maxHeld = 20

// announcer writes what a program prints to the screen, and between that lines of our
// own. A program that has the whole screen to itself is not disturbed: they wait until
// it gives it back.
type announcer struct {
	mu    sync.Mutex
	to    io.Writer   // where the program's output goes
	plain io.Writer   // where our lines go
	full  func() bool // whether the program has the whole screen
	end   string      // what ends a line
	held  []string
}

func (a *announcer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.to.Write(p)
	if len(a.held) > 0 && !a.full() {
		a.release()
	}
	return n, err
}

// listen announces lines until stop is called.
func (a *announcer) listen(lines <-chan string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case line := <-lines:
				a.announce(line)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (a *announcer) announce(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) < maxHeld {
		a.held = append(a.held, line)
	}
	if !a.full() {
		a.release()
	}
}

// release writes the lines that waited. The lock is held.
func (a *announcer) release() {
	for _, line := range a.held {
		fmt.Fprintf(a.plain, "%scoffer: %s%s", a.start(), line, a.end)
	}
	a.held = nil
}

// start gets away from what the program has begun to write, on a terminal in raw mode.
func (a *announcer) start() string {
	if a.end == "\n" {
		return ""
	}
	return a.end
}
