package jail

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/kernel"
	"github.com/cofferhq/coffer/internal/link/packet"
	"golang.org/x/sys/unix"
)

// An outlet is the network of a program whose rules somebody at its other end keeps. What the
// program sends waits in the sockets that it comes out of, and nothing else takes it
// anywhere. So whoever keeps the rules is not called before there is something: to put
// rules together takes longer than to start a program, and many send nothing.
type outlet struct {
	fds     []int
	packets bool
	connect func(link.Link) (end func(), err error)

	mu      sync.Mutex
	sockets []*os.File // the same, once they are watched
	taken   bool       // by who was called, or because nobody is to be called any more
	end     func()
	err     error
}

// watchSoon is when the watch begins. A program that has ended before did not wait for it.
const watchSoon = time.Millisecond

// watch begins to wait for something to come.
func (o *outlet) watch() {
	time.AfterFunc(watchSoon, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.taken {
			return
		}
		for _, fd := range o.fds {
			s := os.NewFile(uintptr(fd), "network")
			o.sockets = append(o.sockets, s)
			go func() {
				if awaitInput(s) {
					o.take()
				}
			}()
		}
	})
}

// awaitInput waits until there is something to read. It says no when the socket was closed.
func awaitInput(s *os.File) bool {
	raw, err := s.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(ready, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}
	return !errors.Is(err, os.ErrClosed) // one that cannot be waited for counts as used
}

// take calls who has the other end.
func (o *outlet) take() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taken {
		return
	}
	o.taken = true
	var l link.Link
	if l, o.err = o.open(); o.err == nil {
		o.end, o.err = o.connect(l)
	}
}

// open makes a link of the sockets.
func (o *outlet) open() (link.Link, error) {
	if o.packets {
		return packet.NewSocket(o.sockets[0], packet.Options{})
	}
	return kernel.Open(o.sockets)
}

// close ends the network, and says why there was none. Sockets that nobody took go with
// this process.
func (o *outlet) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = true
	if o.end != nil {
		o.end()
	}
	return o.err
}
