package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// silent is how long a supervisor may take to answer before it is checked for being suspended.
const silent = time.Second

// TellSuspended tells, after a second, if a sandbox answers nobody because it is suspended.
func TellSuspended(sb *sandbox.Sandbox, tell func(string)) (stop func() bool) {
	return time.AfterFunc(silent, func() {
		if wire.Suspended(sb) {
			tell(fmt.Sprintf("sandbox %s is suspended, as by Ctrl-Z: it goes on with 'fg' in its terminal, and 'coffer stop --force %s' ends it", sb.Name, sb.Name))
		}
	}).Stop
}

// Reach connects to a sandbox's supervisor, starting one if there is none. lock may
// be the sandbox's lock if the caller holds it, and is released.
func Reach(ctx context.Context, sb *sandbox.Sandbox, lock *sandbox.Lock) (*wire.Line, error) {
	if lock == nil {
		if s, err := wire.Connect(sb); err == nil {
			return s, nil
		}
	}
	defer ui.Busy("starting sandbox " + sb.Name)()
	const tries = 400
	for try := range tries {
		if lock == nil {
			var err error
			lock, err = sb.Lock()
			if err != nil && !errors.Is(err, sandbox.ErrRunning) {
				return nil, err
			}
		}
		if lock != nil {
			err := spawn(ctx, sb, lock)
			lock.Release()
			lock = nil
			if err != nil {
				return nil, err
			}
		}
		s, err := wire.Connect(sb)
		if err == nil {
			return s, nil
		}
		// Somebody else is starting or stopping it.
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(min(time.Duration(try+1)*time.Millisecond, 50*time.Millisecond)):
		}
	}
	return nil, ui.Error(fmt.Sprintf("the supervisor of sandbox %s does not answer", sb.Name),
		"stop it with 'coffer stop --force "+sb.Name+"'")
}

// Command is the hidden command that a supervisor process runs.
const Command = "supervise"

// spawn starts a supervisor process, hands it the lock, and waits until it is ready.
func spawn(ctx context.Context, sb *sandbox.Sandbox, lock *sandbox.Lock) error {
	held, err := lock.File()
	if err != nil {
		return err
	}
	defer held.Close()
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	if err := os.MkdirAll(sb.Logs(), 0o700); err != nil {
		tell.Close()
		return err
	}
	log, err := os.OpenFile(filepath.Join(sb.Logs(), "supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		tell.Close()
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", Command, sb.ID)
	cmd.Args[0] = "coffer"
	cmd.Dir = "/"
	// It hands bytes on, and between goroutines on one thread that takes no
	// system call.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{held, tell}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = closeOnExec(); err == nil {
		err = cmd.Start()
	}
	tell.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	go cmd.Wait()
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	return heard(ctx, ready)
}

// heard waits for a supervisor's word.
func heard(ctx context.Context, ready *os.File) error {
	var e wire.Event
	err := wire.ReadMessage(ready, wire.MaxReply, &e)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return errors.New("the supervisor died while it started")
	case e.Failure != nil:
		return ui.Hint(errors.New(e.Failure.Message), "%s", e.Failure.Advice)
	}
	return nil
}

// Tell is heard's counterpart in the supervisor process.
func Tell(ready *os.File, err error) {
	wire.Reply(ready, wire.Event{}, err)
	ready.Close()
}
