package line

import (
	"errors"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/ui"
)

// Ask sends a request and waits for its answer, for so long. What says no is a
// [*wire.Failure].
func (l *Line) Ask(r wire.Request, patience time.Duration) (e wire.Event, err error) {
	s, err := l.Socket()
	if err != nil {
		return e, err
	}
	defer s.Close()
	if err := s.SetDeadline(time.Now().Add(patience)); err != nil {
		return e, err
	}
	if err := wire.WriteRequest(s, r); err != nil {
		return e, err
	}
	err = wire.ReadMessage(s, wire.MaxList, &e)
	if err == nil && e.Failure != nil {
		err = e.Failure
	}
	return e, err
}

// Forward changes the forwards of the running sandbox at the end of the line. It returns
// those that were asked for.
func (l *Line) Forward(w wire.Forwarding) ([]wire.Forward, error) {
	e, err := l.Ask(wire.Request{Op: wire.OpForward, Forward: &w}, 20*time.Second)
	var f *wire.Failure
	if errors.As(err, &f) {
		return nil, ui.Hint(f, "%s", f.Advice)
	}
	if err == nil && e.Ports == nil {
		err = errors.New("the supervisor told no ports")
	}
	if err != nil {
		return nil, err
	}
	return e.Ports.Forwards, nil
}

// statusTime is how long that may take: who took a supervisor that is slow for one in which nothing
// runs would start a second agent beside the first. One that is suspended is found out otherwise.
const statusTime = 10 * time.Second

// Status asks how the sandbox at the end of the line is, with its ports if wanted.
func (l *Line) Status(ports bool) (*wire.Status, error) {
	r := wire.Request{Op: wire.OpStatus}
	if ports {
		r.Ports = &wire.Survey{}
	}
	e, err := l.Ask(r, statusTime)
	if err == nil && e.Status == nil {
		err = errors.New("the supervisor told no status")
	}
	return e.Status, err
}
