package ui

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
)

// Progress shows how work goes on: on a terminal by a line that changes, otherwise by a line for
// each step of it.
type Progress struct {
	to   *os.File
	live bool

	mu    sync.Mutex
	step  string
	shown time.Time
}

// NewProgress returns a progress on standard error, where nobody else should write until [Progress.Clear].
func NewProgress() *Progress { return newProgress(os.Stderr) }

func newProgress(to *os.File) *Progress {
	return &Progress{to: to, live: terminal.IsTerminal(int(to.Fd()))}
}

// Live says whether there is a terminal.
func (p *Progress) Live() bool { return p.live }

// erase goes to the beginning of the line and clears it.
const erase = "\r\x1b[K"

// Show says which step is done now, and how far it is, which only a terminal shows.
func (p *Progress) Show(step, far string) {
	const often = 100 * time.Millisecond
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.step == step
	p.step = step
	switch {
	case p.live && (!again || time.Since(p.shown) >= often):
		p.shown = time.Now()
		columns, _ := size(int(p.to.Fd()))
		fmt.Fprint(p.to, erase+cut("coffer: "+terminal.Escape(step+" … "+far), columns))
	case !p.live && !again:
		fmt.Fprintf(p.to, "coffer: %s …\n", terminal.Escape(step))
	}
}

// Clear removes the line: the next step begins anew.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && p.step != "" {
		fmt.Fprint(p.to, erase)
	}
	p.step = ""
}

// silent, if it is not empty, has [Busy] print nothing. Only the linker can set it, for tests of
// other output on machines that may stand still for a second at any point:
// go build -ldflags '-X …/internal/ui.silent=yes'.
var silent string

// Busy tells the user what takes longer than a second, by a [Progress] with the time that it has
// taken. done ends it, and may be called again.
func Busy(what string) (done func()) {
	if silent != "" {
		return func() {}
	}
	return busy(NewProgress(), what, time.Second)
}

func busy(p *Progress, what string, patience time.Duration) (done func()) {
	begun, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer p.Clear()
		tick := time.NewTicker(patience)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				p.Show(what, time.Since(begun).Truncate(time.Second).String())
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}
