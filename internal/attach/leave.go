package attach

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// LeaveKeys is what the user presses to leave a program that is kept, in words.
const LeaveKeys = `Ctrl-\ twice`

// ErrLeft says that the user has left a program, which goes on.
var ErrLeft = errors.New("the program goes on without you")

// doubt is how long after the first key the second may come. Until then the program does
// not get the first one.
const doubt = 500 * time.Millisecond

// A leaver passes on what the user types, until it is the keys to leave.
type leaver struct {
	p *wire.Process

	mu    sync.Mutex
	held  []byte // keys that may be the first half
	hurry *time.Timer
	paste bool // what comes is pasted, and no keys
	gone  bool
}

// Write takes what the terminal sent at once: a key, usually.
func (l *leaver) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pressed, only := 0, false
	if !l.paste {
		pressed, only = leaveKeys(b)
	}
	if i := bytes.LastIndex(b, []byte("\x1b[200~")); i >= 0 || l.paste {
		l.paste = bytes.LastIndex(b, []byte("\x1b[201~")) < max(i, 0)
	}
	if l.hurry != nil {
		l.hurry.Stop()
	}
	switch before, _ := leaveKeys(l.held); {
	case only && before+pressed >= 2:
		l.gone, l.held = true, nil
		l.p.Close()
		return 0, ErrLeft
	case only && before+pressed > 0:
		l.held = append(l.held, b...)
		l.hurry = time.AfterFunc(doubt, l.release)
		return len(b), nil
	}
	if err := l.pass(); err != nil {
		return 0, err
	}
	return l.p.Write(b)
}

// pass sends what was held. The lock is held.
func (l *leaver) pass() error {
	held := l.held
	l.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := l.p.Write(held)
	return err
}

func (l *leaver) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.pass()
}

// away leaves the program: our terminal is gone.
func (l *leaver) away() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	l.p.Close()
}

// left says whether the program was left.
func (l *leaver) left() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

const backslash, leftControl, rightControl = 92, 57442, 57448

// leaveKeys counts how often Ctrl-\ is pressed in what a terminal sent, and says whether
// that is all there is. A terminal that was asked to tells of keys in other words, and of
// their release, and of Ctrl by itself.
func leaveKeys(b []byte) (pressed int, only bool) {
	only = len(b) > 0
	for len(b) > 0 {
		if b[0] == 0x1c {
			pressed++
			b = b[1:]
			continue
		}
		k, n := key(b)
		switch {
		case n == 0:
			return pressed, false
		case k.code == backslash && k.control && !k.release:
			pressed++
		case k.code == backslash && k.release, k.code == leftControl, k.code == rightControl:
		default:
			return pressed, false
		}
		b = b[n:]
	}
	return pressed, only
}

// keyPress is a key as kitty's protocol, or xterm's modifyOtherKeys, tells of it.
type keyPress struct {
	code             int
	control, release bool
}

// key reads CSI code:…;modifiers:event u or CSI 27;modifiers;code ~ from the front, and
// says how long it is.
func key(b []byte) (k keyPress, n int) {
	if !bytes.HasPrefix(b, []byte("\x1b[")) {
		return k, 0
	}
	var p [4][2]int // parameters, and the second of what colons divide each into
	i, sub := 0, 0
	for n = 2; n < len(b); n++ {
		switch c := b[n]; {
		case c >= '0' && c <= '9' && sub < 2:
			p[i][sub] = min(p[i][sub]*10+int(c-'0'), 1<<20)
		case c >= '0' && c <= '9':
		case c == ':':
			sub++
		case c == ';' && i < len(p)-1:
			i, sub = i+1, 0
		case c == 'u' || c == '~' && p[0][0] == 27 && i == 2:
			k.code = p[0][0]
			if c == '~' {
				k.code = p[2][0]
			}
			// The modifiers are bits, plus one: shift, alt, ctrl, …; caps and num lock
			// are the last.
			k.control = (p[1][0]-1)&^(64|128) == 4
			k.release = p[1][1] == 3
			return k, n + 1
		default:
			return k, 0
		}
	}
	return k, 0
}
