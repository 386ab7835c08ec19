package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// Either calls running with a line to the sandbox's supervisor or, if it does not run, stopped with
// its lock held. One that is starting or stopping is waited for.
func (sb *Sandbox) Either(ctx context.Context, running func(*wire.Line) error, stopped func() error) error {
	const tries = 400
	for try := range tries {
		line, err := wire.Connect(sb)
		if err == nil {
			defer line.Close()
			return running(line)
		}
		lock, err := sb.Lock()
		if err == nil {
			defer lock.Release()
			return stopped()
		}
		if !errors.Is(err, ErrRunning) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(time.Duration(try+1)*time.Millisecond, 50*time.Millisecond)):
		}
	}
	return ui.Error("the supervisor of sandbox "+sb.Name+" does not answer", "stop it with 'coffer stop --force "+sb.Name+"'")
}
