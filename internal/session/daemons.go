package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// A daemon is a program of the sandbox that this process looks after: it keeps what the
// program prints, starts it again when it ends, and asks it to end when the sandbox does.
// It counts as nothing that runs: an idle sandbox is stopped with its daemons.

// How long to wait before a daemon is started again: twice as long each time, and from the
// beginning once it has run for a while.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 30 * time.Second
	runsWell   = time.Minute
)

// DaemonLog is where the output of a daemon is kept.
func DaemonLog(sb *sandbox.Sandbox, name string) string {
	return filepath.Join(sb.Logs(), "daemon-"+name+".log")
}

// A Host is what daemons need of the running sandbox.
type Host struct {
	Programs wire.Opener            // starts programs
	Ended    <-chan struct{}        // closed when the sandbox is dead
	Listens  func(port uint16) bool // whether something inside listens on a port
}

// Daemons are those of a running sandbox.
type Daemons struct {
	all  []*daemon
	stop context.CancelFunc
	over sync.WaitGroup
}

type daemon struct {
	sandbox.Daemon
	sb   *sandbox.Sandbox
	host Host
	log  *Log
	up   chan struct{} // closed when it runs for the first time
	over chan struct{} // closed when it has ended for good
	once sync.Once

	mu    sync.Mutex
	state wire.Daemon
}

// Start starts a sandbox's daemons, one after the other, and waits until each is ready: the next
// may need it.
func (all *Daemons) Start(ctx context.Context, sb *sandbox.Sandbox, host Host) error {
	if len(sb.Daemons) == 0 {
		return nil
	}
	running, stop := context.WithCancel(context.Background())
	all.stop = stop
	for _, one := range sb.Daemons {
		d := &daemon{Daemon: one, sb: sb, host: host, up: make(chan struct{}), over: make(chan struct{})}
		d.state = wire.Daemon{Name: one.Name, State: "starting"}
		var err error
		if d.log, err = OpenLog(DaemonLog(sb, one.Name)); err != nil {
			return err
		}
		all.all = append(all.all, d)
		all.over.Go(func() { d.keep(running) })
		if err := d.waitReady(ctx); err != nil {
			return fmt.Errorf("the daemon %s: %w", one.Name, err)
		}
	}
	return nil
}

// Stop asks the daemons to end, and waits until they have or their time is over.
func (all *Daemons) Stop() {
	if all.stop == nil {
		return
	}
	all.stop()
	all.over.Wait()
}

// States are how the daemons are.
func (all *Daemons) States() (list []wire.Daemon) {
	for _, d := range all.all {
		d.mu.Lock()
		list = append(list, d.state)
		d.mu.Unlock()
	}
	return list
}

// keep runs the daemon for as long as the sandbox lasts.
func (d *daemon) keep(ctx context.Context) {
	defer d.log.f.Close()
	defer close(d.over)
	pause := firstPause
	for {
		began := time.Now()
		last, again := d.run(ctx)
		fmt.Fprintf(d.log, "coffer: %s\n", last)
		if ctx.Err() != nil || !again {
			d.note(func(s *wire.Daemon) { s.State, s.Last = "ended", last })
			return
		}
		if time.Since(began) >= runsWell {
			pause = firstPause
		}
		d.note(func(s *wire.Daemon) { s.State, s.Last, s.Restarts = "waiting to be started again", last, s.Restarts+1 })
		select {
		case <-ctx.Done(): // it is not started only to be asked to end
			d.note(func(s *wire.Daemon) { s.State = "ended" })
			return
		case <-d.host.Ended:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// run runs it once, and says how it ended and whether it is to be started again. When ctx
// is done, the program is asked to end.
func (d *daemon) run(ctx context.Context) (last string, again bool) {
	e, err := d.exec(d.Command)
	if err != nil {
		return err.Error(), false
	}
	p, err := wire.Start(d.host.Programs, e)
	if err == nil {
		defer p.Close()
		err = p.WaitStart()
	}
	if err != nil {
		// A program that is not there will not be there later; one that was there
		// may be.
		return err.Error(), d.Restart != sandbox.RestartNever && d.ran() && !errors.Is(err, wire.ErrGone)
	}
	d.note(func(s *wire.Daemon) { s.State = "running" })
	d.once.Do(func() { close(d.up) })
	ended := make(chan struct{})
	done := context.AfterFunc(ctx, func() { d.end(p, ended) })
	defer done()
	exit, err := p.Wait(d.log, d.log)
	close(ended)
	if err != nil {
		return err.Error(), false
	}
	return fmt.Sprintf("exit status %d", exit.Status()), d.Restart == sandbox.RestartAlways || d.Restart == sandbox.RestartOnFailure && exit.Status() != 0
}

func (d *daemon) ran() bool {
	select {
	case <-d.up:
		return true
	default:
		return false
	}
}

// end asks the program to end, and kills it after its grace time.
func (d *daemon) end(p *wire.Process, ended <-chan struct{}) {
	_ = p.Signal(d.StopSignal())
	select {
	case <-ended:
		return
	case <-d.host.Ended:
		return
	case <-time.After(d.Grace):
	}
	_ = p.Signal(syscall.SIGKILL)
}

// exec is a program of the daemon's, with its environment and directory.
func (d *daemon) exec(argv []string) (wire.Exec, error) {
	var env []string
	for _, v := range d.Env {
		name, text, _ := strings.Cut(v, "=")
		value, err := sandbox.FillTemplate(text)
		if err != nil {
			return wire.Exec{}, fmt.Errorf("its variable %s %w", name, err)
		}
		env = append(env, name+"="+value)
	}
	e, err := sandbox.NewExec(d.sb, argv, env, false)
	e.NoInput, e.Merged = true, true
	switch {
	case filepath.IsAbs(d.Dir):
		e.Dir = d.Dir
	case d.Dir != "":
		e.Dir = filepath.Join(e.Dir, d.Dir)
	}
	return e, err
}

func (d *daemon) note(change func(*wire.Daemon)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.state)
}

// waitReady waits until the daemon runs and is ready. It is not waited for longer than
// its time, nor when it has ended.
func (d *daemon) waitReady(ctx context.Context) error {
	select {
	case <-d.up:
	case <-d.over:
		if !d.ran() {
			return errors.New(d.last())
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.ReadyPort == 0 && d.ReadyCommand == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, d.ReadyTimeout)
	defer cancel()
	for !d.ready(limited) {
		select {
		case <-d.over:
			return ui.Error(fmt.Sprintf("it ended before it was ready (%s); it said last: %s", d.last(), lastLine(d.log.path)), "see what it needs")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limited.Done():
			return ui.Error(fmt.Sprintf("it was not ready after %s; it said last: %s", d.ReadyTimeout, lastLine(d.log.path)),
				"see what it needs, or raise ready_timeout")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (d *daemon) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Last
}

// ready asks once. A program that asks for too long is hung up on.
func (d *daemon) ready(ctx context.Context) bool {
	if d.ReadyPort > 0 {
		return d.host.Listens(d.ReadyPort)
	}
	e, err := d.exec([]string{"/bin/sh", "-c", d.ReadyCommand})
	if err != nil {
		return false
	}
	p, err := wire.Start(d.host.Programs, e)
	if err != nil {
		return false
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	if p.WaitStart() != nil {
		return false
	}
	exit, err := p.Wait(io.Discard, io.Discard)
	return err == nil && exit.Status() == 0
}

// lastLine is the last line of a file that is not coffer's own.
func lastLine(path string) string {
	const tail = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return "nothing"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, tail))
	last := "nothing"
	for l := range strings.Lines(strings.ToValidUTF8(string(data), "?")) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "coffer: ") {
			last = l
		}
	}
	return last
}
