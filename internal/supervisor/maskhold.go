package supervisor

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/guest/wire/mux"
)

// hold has the guest stop all programs, or have them go on. Several trees are watched.
func (s *Supervisor) hold(yes bool) error {
	s.masks.holding.Lock()
	defer s.masks.holding.Unlock()
	was := s.masks.held
	if yes {
		s.masks.held++
	} else {
		s.masks.held--
	}
	if (was > 0) == (s.masks.held > 0) {
		return nil
	}
	c, err := s.session.Open()
	if err != nil {
		return err
	}
	c.SetDeadline(time.Now().Add(visitPatience))
	if err := askHold(c, yes); err != nil || !yes {
		mux.HangUp(c)
		return err
	}
	c.SetDeadline(time.Time{})
	s.masks.ended.Go(func() {
		defer mux.HangUp(c)
		defer context.AfterFunc(s.masks.life, func() { c.Close() })()
		s.hearHeld(c)
	})
	return nil
}

func askHold(c net.Conn, yes bool) error {
	var e wire.Event
	err := wire.WriteMessage(c, wire.Request{Op: wire.OpHold, Hold: yes})
	if err == nil {
		err = wire.ReadMessage(c, wire.MaxReply, &e)
	}
	if err == nil && e.Done == nil {
		err = errors.New("the guest did not say whether programs wait")
	}
	if err == nil && e.Done.Error != "" {
		err = errors.New(e.Done.Error)
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
			s.because("files that appear could not be hidden any more: " + e.Done.Error)
			s.instance.Kill()
			return
		}
	}
}
