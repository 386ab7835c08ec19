package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// setUp prepares a new sandbox, inside, as its config and .coffer/setup.sh say. Whoever
// made the sandbox removes it if that fails: half a setup is none.
func (s *settings) setUp(ctx context.Context, o wire.Opener, sb *sandbox.Sandbox) error {
	p := s.conf.Setup().In(sb.Workspace.Path)
	if len(p.Scripts)+len(p.Commands) == 0 {
		suggestSetup(sb)
	}
	if (sb.Ephemeral || sb.Once) && !p.Run {
		return nil // a throw-away shall start at once
	}
	tools := s.mise != nil && p.Tools && !sb.Network.None()
	if len(p.Scripts)+len(p.Commands) == 0 && !tools {
		return nil
	}
	done, err := beginSetUp(sb)
	if err != nil {
		return err
	}
	tell, err := newProgress(filepath.Join(sb.Logs(), "setup.log"))
	if err != nil {
		return err
	}
	defer tell.close()
	if tools { // first, for scripts may use them
		if err := s.installTools(ctx, o, sb, tell); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	for _, step := range setupSteps(p.Scripts, p.Commands) {
		tell.begin(step.name)
		exit, err := s.setUpStep(limited, o, sb, step.argv, "", tell)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil:
			err = fmt.Errorf("took longer than %s", p.Timeout)
		case err == nil && exit.Status() != 0:
			err = fmt.Errorf("exit status %d", exit.Status())
		}
		tell.end(err)
		if err != nil {
			return ui.Hint(fmt.Errorf("setup failed: %s: %w", step.name, err), "nothing is left of the sandbox; mend the setup and try again")
		}
	}
	done()
	return nil
}

// runScript goes before the path of a script.
var runScript = []string{"/bin/sh", "-c", `if [ -x "$1" ]; then exec "$1"; fi; exec /bin/sh "$1"`, "setup"}

type setupStep struct {
	name string
	argv []string
}

// setupSteps are programs inside. A script that says by which program it is to be run, and
// is executable, is taken at its word; others are for sh.
func setupSteps(scripts, commands []string) (steps []setupStep) {
	for _, name := range scripts {
		steps = append(steps, setupStep{name, append(slices.Clone(runScript), "./"+name)})
	}
	for _, c := range commands {
		steps = append(steps, setupStep{c, []string{"/bin/sh", "-c", c}})
	}
	return steps
}

func (s *settings) setUpStep(ctx context.Context, o wire.Opener, sb *sandbox.Sandbox, argv []string, dir string, out *progress) (exit wire.Exit, err error) {
	plain := *s
	plain.root, plain.dir = false, dir
	e, err := plain.exec(sb, argv)
	if err != nil {
		return exit, err
	}
	e.NoInput, e.Merged = true, true
	p, err := wire.Start(o, e)
	if err != nil {
		return exit, err
	}
	defer p.Close()
	defer context.AfterFunc(ctx, p.Close)()
	if err := p.WaitStart(); err != nil {
		return exit, err
	}
	return p.Wait(out, out)
}

// progress shows how a setup goes on: on a terminal, a line that changes; otherwise when
// it begins and ends. Everything is kept in a file, and shown if the setup fails.
type progress struct {
	mu    sync.Mutex
	log   *os.File
	kept  int64
	tail  []byte
	name  string
	since time.Time
	shown time.Time
	live  bool
}

// How much of a setup's output is kept, and shown when it fails.
const (
	maxSetupLog = 16 << 20
	setupTail   = 16 << 10
)

func newProgress(path string) (*progress, error) {
	// Not the folder around it: the sandbox may have been removed meanwhile.
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &progress{log: f, live: terminal.IsTerminal(2)}, nil
}

func (p *progress) close() { p.log.Close() }

func (p *progress) begin(name string) {
	p.name, p.since, p.tail = name, time.Now(), nil
	fmt.Fprintf(p.log, "coffer: %s\n", name)
	if p.live {
		p.show("")
	} else {
		fmt.Fprintf(os.Stderr, "coffer: setting up: %s\n", terminal.Escape(name))
	}
}

// Write takes what the setup prints. It never fails: a full disk is no reason to end it.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if room := maxSetupLog - p.kept; room > 0 {
		n, _ := p.log.Write(b[:min(int64(len(b)), room)])
		p.kept += int64(n)
	}
	p.tail = append(p.tail, b...)
	if over := len(p.tail) - setupTail; over > 0 {
		p.tail = append(p.tail[:0], p.tail[over:]...)
	}
	if p.live && time.Since(p.shown) > 100*time.Millisecond {
		p.shown = time.Now()
		lines := bytes.Split(bytes.TrimSpace(p.tail), []byte("\n"))
		p.show(string(lines[len(lines)-1]))
	}
	return len(b), nil
}

// show writes the line that changes, no wider than most terminals.
func (p *progress) show(last string) {
	const width = 78
	line := []rune(terminal.Escape(fmt.Sprintf("setting up: %s, %s %s", p.name, time.Since(p.since).Round(time.Second), last)))
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s", string(line[:min(len(line), width)]))
}

// clear takes away the line that changes.
func (p *progress) clear() {
	if p.live {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

func (p *progress) end(err error) {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if !p.live {
			fmt.Fprintf(os.Stderr, "coffer: set up: %s, in %s\n", terminal.Escape(p.name), time.Since(p.since).Round(time.Millisecond))
		}
		return
	}
	if len(p.tail) > 0 {
		fmt.Fprintf(os.Stderr, "coffer: the last of what %s printed:\n", terminal.Escape(p.name))
	}
	for line := range strings.Lines(strings.ToValidUTF8(string(p.tail), "?")) {
		fmt.Fprintln(os.Stderr, "  "+terminal.Escape(strings.TrimRight(line, "\r\n")))
	}
}

// setUpOrStop is setUp for a sandbox that this process supervises.
func (s *settings) setUpOrStop(l *listener, super *supervisor.Supervisor, lock *sandbox.Lock) error {
	err := s.setUp(l.ctx, super, super.Sandbox)
	if err != nil {
		super.Close()
		err = errors.Join(err, abandon(super.Sandbox, lock))
	}
	return err
}
