package session

import (
	"net"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// A viewer is a command that looks at a session. What it is to see waits in a queue of its
// own and is sent by a goroutine of its own: one that is slow, or was stopped, holds up
// neither the program nor the others. One that is too far behind misses what comes, and
// when it has caught up it is shown what there is then.
type viewer struct {
	conn net.Conn
	out  *wire.FrameWriter

	mu     sync.Mutex
	more   *sync.Cond
	queue  []byte                          // what the program printed
	words  []func(*wire.FrameWriter) error // what is said after that
	undo   []byte                          // what puts a terminal in order that misses the rest; while behind
	behind bool
	over   bool // there is no more to come

	pausing, paused bool // it is to be told, or knows, that the program has stopped
}

const (
	// maxViewers bounds how many there are.
	maxViewers = 32
	// maxBehind is how much waits for a viewer.
	maxBehind = 1 << 20
)

// viewerTime is how long a viewer may take nothing at all. One whose line is dead, or
// who was stopped, is let go, and can come back. Tests have more of it.
var viewerTime = 10 * time.Second

func newViewer(c net.Conn) *viewer {
	v := &viewer{conn: c, out: wire.NewFrameWriter(hasty{c})}
	v.more = sync.NewCond(&v.mu)
	return v
}

// hasty is a connection whose other end has to take what it is sent.
type hasty struct{ net.Conn }

func (h hasty) Write(p []byte) (int, error) {
	_ = h.SetWriteDeadline(time.Now().Add(viewerTime))
	return h.Conn.Write(p)
}

// send sends what is queued until the viewer is let go, or has been told all there is. It
// calls caughtUp when one that was behind has taken what it was sent.
func (v *viewer) send(caughtUp func()) {
	defer v.conn.Close() // who listens to it ends too
	for err := v.out.Started(); err == nil; {
		v.mu.Lock()
		for !v.over && (v.paused || len(v.queue) == 0 && len(v.words) == 0 && !v.behind && !v.pausing) {
			v.more.Wait()
		}
		queue, behind, over := v.queue, v.behind, v.over
		v.queue = nil
		var words []func(*wire.FrameWriter) error
		if !behind { // else it is shown how things ended first
			words, v.words = v.words, nil
			if v.pausing {
				words = append(words, sayStopped)
			}
			v.paused, v.pausing = v.paused || v.pausing, false
		}
		v.mu.Unlock()
		err = v.out.Data(wire.Output, queue)
		for i := 0; err == nil && i < len(words); i++ {
			err = words[i](v.out)
		}
		switch {
		case len(queue) > 0 || len(words) > 0 || err != nil:
		case behind:
			caughtUp()
		case over:
			return
		}
	}
}

// show queues what the program prints. Where that is too much the viewer is behind, and undo
// says what its terminal will need.
func (v *viewer) show(p []byte, undo func() []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.behind || v.over {
		return
	}
	if len(v.queue)+len(p) > maxBehind && len(v.queue) > 0 {
		v.behind, v.undo = true, undo()
	} else {
		v.queue = append(v.queue, p...)
	}
	v.more.Signal()
}

// anew queues all there is to see, for one that was behind.
func (v *viewer) anew(all []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue = append(append(append(v.queue, v.undo...), clearScreen...), all...)
	v.behind, v.undo = false, nil
	v.more.Signal()
}

// clearScreen begins the screen anew.
const clearScreen = "\x1b[H\x1b[2J"

// say queues words, behind all that was printed.
func (v *viewer) say(words func(*wire.FrameWriter) error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.words = append(v.words, words)
	v.more.Signal()
}

// finish says that there is no more to come. It does not wait.
func (v *viewer) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	v.more.Signal()
}
