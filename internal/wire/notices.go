package wire

import (
	"time"
)

// Notices are the lines that a supervisor has for the user: what it refused, and what it
// asks.
type Notices struct {
	path  Dial
	since time.Time
}

// Notices are those from now on.
func (l *Line) Notices() *Notices { return &Notices{l.path, time.Now()} }

const (
	// unhurried is how long a program runs before we begin to listen. Most are done by
	// then, and would have waited for us. The supervisor keeps what it tells meanwhile.
	unhurried = 50 * time.Millisecond
	// lastWords is how long the supervisor may take to say what is left.
	lastWords = 5 * time.Second
)

// Watch shows the lines that come until stop, which returns when all are shown. After a
// program that was short and did not fail, nobody asks for any.
func (n *Notices) Watch(show func(line string)) (stop func(failed bool)) {
	over, ended := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(unhurried)
		defer timer.Stop()
		select {
		case <-timer.C:
			n.listen(show, over)
		case failed := <-over:
			if failed {
				over <- failed
				n.listen(show, over)
			}
		}
	}()
	return func(failed bool) {
		over <- failed
		<-ended
	}
}

// listen shows lines until it is over, and then what is left. Without a supervisor that
// answers there are none; they are in the log.
func (n *Notices) listen(show func(string), over <-chan bool) {
	s, err := n.path.connect()
	if err != nil {
		<-over
		return
	}
	err = WriteMessage(s, Request{Op: OpWatch, Watch: &Watch{Since: n.since}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err == nil {
			var e Event
			if err = ReadMessage(s, MaxReply, &e); err == nil {
				show(e.Notice)
			}
		}
	}()
	<-over
	_ = s.CloseWrite()
	late := time.AfterFunc(lastWords, func() { s.Close() })
	<-ended
	if late.Stop() {
		s.Close()
	}
}
