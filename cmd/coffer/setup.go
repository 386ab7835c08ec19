package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// setUp runs the config's setup and .coffer/setup.sh inside. The caller removes the sandbox if that fails.
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
	if err := os.WriteFile(sb.SetupMark(), nil, 0o600); err != nil {
		return fmt.Errorf("begin the setup: %w", err)
	}
	// Not the folder around the logs: the sandbox may have been removed meanwhile.
	if err := os.Mkdir(sb.Logs(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	log, err := os.OpenFile(filepath.Join(sb.Logs(), "setup.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	out := &setupLog{log: log, progress: ui.NewProgress()}
	if tools { // first, for scripts may use them
		install := []string{"/bin/sh", "-c", installing, s.mise.program}
		if err := s.setUpStep(ctx, o, sb, "mise install", install, s.dir, miseTime, out); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			warn(fmt.Sprintf("not all tools of this repository are there: mise install: %s; try again with 'coffer exec -m %s -- mise install'", err, sb.Name))
		}
	}
	end := time.Now().Add(p.Timeout)
	step := func(name string, argv ...string) error {
		err := s.setUpStep(ctx, o, sb, name, argv, "", time.Until(end), out)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return ui.Hint(fmt.Errorf("setup failed: %s: %w", name, err), "nothing is left of the sandbox; mend the setup and try again")
		}
		return nil
	}
	for _, name := range p.Scripts {
		if err := step(name, append(slices.Clone(runScript), "./"+name)...); err != nil {
			return err
		}
	}
	for _, c := range p.Commands {
		if err := step(c, "/bin/sh", "-c", c); err != nil {
			return err
		}
	}
	return os.Remove(sb.SetupMark())
}

// runScript goes before the path of a script. One that is executable says by which program it is run.
var runScript = []string{"/bin/sh", "-c", `if [ -x "$1" ]; then exec "$1"; fi; exec /bin/sh "$1"`, "setup"}

// setUpStep runs a program inside, which may take so long. What it printed is shown if it fails.
func (s *settings) setUpStep(ctx context.Context, o wire.Opener, sb *sandbox.Sandbox, name string, argv []string, dir string, limit time.Duration, out *setupLog) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	plain := settings{env: s.env, dir: dir}
	e, err := plain.exec(sb, argv)
	if err != nil {
		return err
	}
	e.NoInput, e.Merged = true, true
	out.begin(name)
	var exit wire.Exit
	p, err := wire.Start(o, e)
	if err == nil {
		defer p.Close()
		defer context.AfterFunc(limited, p.Close)()
		if err = p.WaitStart(); err == nil {
			exit, err = p.Wait(out, out)
		}
	}
	switch {
	case limited.Err() != nil:
		err = fmt.Errorf("took longer than %s", limit.Round(time.Second))
	case err == nil && exit.Status() != 0:
		err = fmt.Errorf("exit status %d", exit.Status())
	}
	out.end(err)
	return err
}

// A setupLog keeps what a setup prints in a file, and the end of it to be shown if it fails.
type setupLog struct {
	log      *os.File
	progress *ui.Progress
	begun    time.Time

	name string

	mu   sync.Mutex
	kept int64
	tail []byte
}

// How much of a setup's output is kept, and shown when it fails.
const (
	maxSetupLog = 16 << 20
	setupTail   = 16 << 10
)

func (l *setupLog) begin(name string) {
	l.name, l.begun, l.tail = name, time.Now(), nil
	fmt.Fprintf(l.log, "coffer: %s\n", name)
	l.progress.Show("setting up: "+name, "")
}

// Write takes what the setup prints. It never fails: a full disk is no reason to end it.
func (l *setupLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxSetupLog - l.kept; room > 0 {
		n, _ := l.log.Write(b[:min(int64(len(b)), room)])
		l.kept += int64(n)
	}
	l.tail = append(l.tail, b...)
	if over := len(l.tail) - setupTail; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	lines := bytes.Split(bytes.TrimSpace(l.tail), []byte("\n"))
	l.progress.Show("setting up: "+l.name, fmt.Sprintf("%s %s", time.Since(l.begun).Round(time.Second), lines[len(lines)-1]))
	return len(b), nil
}

func (l *setupLog) end(err error) {
	l.progress.Clear()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && !l.progress.Live():
		fmt.Fprintf(os.Stderr, "coffer: set up: %s, in %s\n", terminal.Escape(l.name), time.Since(l.begun).Round(time.Millisecond))
	case err != nil && len(l.tail) > 0:
		fmt.Fprintf(os.Stderr, "coffer: the last of what %s printed:\n", terminal.Escape(l.name))
		for line := range strings.Lines(strings.ToValidUTF8(string(l.tail), "?")) {
			fmt.Fprintln(os.Stderr, "  "+terminal.Escape(strings.TrimRight(line, "\r\n")))
		}
	}
}

func refuseHalf(sb *sandbox.Sandbox) error {
	if _, err := os.Lstat(sb.SetupMark()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return ui.Error(fmt.Sprintf("sandbox %s is not set up: the command that makes it still works on that, or was killed", sb.Name),
		fmt.Sprintf("wait for it; or remove the sandbox with 'coffer rm --force %s', and make it again", sb.Name))
}

// suggestSetup says once per project how to have a setup, if there is a lock file and nothing installed.
func suggestSetup(sb *sandbox.Sandbox) {
	if sb.Workspace.Path == "" || sb.Workspace.Mode == sandbox.WorkspaceNone {
		return
	}
	one, missing := config.MissingInstall(sb.Workspace.Path)
	if !missing || !firstTime("setup") {
		return
	}
	fmt.Fprintf(os.Stderr, "coffer: there is a %s but no %s: 'coffer ai' and 'coffer exec --create' run .coffer/setup.sh once in each new sandbox, so put '%s' there\n",
		one.Lock, one.Dir, one.Command)
}

// firstTime reports whether something was never asked about this project, and notes it; false if it cannot.
func firstTime(what string) bool {
	places, err := placesHere()
	if err != nil {
		return false
	}
	if _, err := places.TrustStore(); err != nil {
		return false // programs in the sandbox could write there
	}
	dir := filepath.Join(filepath.Dir(places.Trust), "told")
	if os.MkdirAll(dir, 0o700) != nil {
		return false
	}
	sum := sha256.Sum256([]byte(places.Root()))
	f, err := os.OpenFile(filepath.Join(dir, what+"-"+hex.EncodeToString(sum[:])), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}
