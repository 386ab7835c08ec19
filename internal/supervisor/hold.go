package supervisor

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// holding is why programs wait: a disk is nearly full. They go on when none is any more.
type holding struct {
	mu    sync.Mutex
	disks []string // what is said of each that is nearly full
}

// held is what the guest is to do.
func (h *holding) held() (yes bool, why string) { return len(h.disks) > 0, h.why() }

// why is what is said of the disk that has been full for longest.
func (h *holding) why() string {
	if len(h.disks) == 0 {
		return ""
	}
	return h.disks[0]
}

// disk notes that one is full, or not any longer.
func (h *holding) disk(yes bool, why string) {
	if yes {
		h.disks = append(h.disks, why)
	} else if i := slices.Index(h.disks, why); i >= 0 {
		h.disks = slices.Delete(h.disks, i, i+1)
	}
}

// holdDisk has them wait until there is room on a disk, or not any longer.
func (s *Supervisor) holdDisk(yes bool, why string) error {
	return s.holdFor(func(h *holding) { h.disk(yes, why) }, false)
}

// holdHard has those ended that do not wait.
func (s *Supervisor) holdHard() error { return s.holdFor(func(*holding) {}, true) }

// waits says what programs wait for, if that may take long.
func (s *Supervisor) waits() string {
	h := &s.holding
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why()
}

// holdFor tells the guest if it has something else to do now that a reason came or went.
func (s *Supervisor) holdFor(change func(*holding), hard bool) error {
	h := &s.holding
	h.mu.Lock()
	defer h.mu.Unlock()
	was, said := h.held()
	change(h)
	is, why := h.held()
	if is == was && why == said && !hard {
		return nil
	}
	c, err := s.session.Open()
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(guestPatience))
	if err := s.askHold(c, wire.Request{Op: wire.OpHold, Hold: is, HoldFor: why, HoldHard: hard && is}); err != nil || !is {
		wire.HangUp(c)
		return err
	}
	c.SetDeadline(time.Time{})
	s.masks.ended.Go(func() {
		defer wire.HangUp(c)
		defer context.AfterFunc(s.masks.life, func() { c.Close() })()
		s.hearHeld(c)
	})
	return nil
}

func (s *Supervisor) askHold(c net.Conn, r wire.Request) error {
	err := wire.WriteMessage(c, r)
	for err == nil {
		var e wire.Event
		switch err = wire.ReadMessage(c, wire.MaxReply, &e); {
		case err != nil:
		case e.Notice != "":
			s.notices.tell(e.Notice)
		case e.Done == nil:
			err = errors.New("the guest did not say whether programs wait")
		case e.Done.Error != "":
			err = errors.New(e.Done.Error)
		default:
			return nil
		}
	}
	return err
}

// hearHeld hears of programs that do not wait, until all go on.
func (s *Supervisor) hearHeld(c net.Conn) {
	for {
		var e wire.Event
		if wire.ReadMessage(c, wire.MaxReply, &e) != nil {
			return
		}
		if e.Notice != "" {
			s.notices.tell(e.Notice)
		}
		if e.Done != nil {
			s.because("the disk could not be kept from filling up: " + e.Done.Error)
			s.instance.Kill()
			return
		}
	}
}
