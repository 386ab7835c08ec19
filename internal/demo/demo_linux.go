package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

const (
	patience = time.Minute      // for the whole demo, which takes a second on most machines
	mercy    = 10 * time.Second // for coffer to clean up when interrupted
)

// Run shows the play. Whatever happens, nothing is left of it.
func Run(ctx context.Context, o Options) error {
	return run(ctx, o, []string{o.Program, "run", "--", rootfs.Own + "/bin/coffer"})
}

// run plays with a command that leads into the sandbox. Without one, everything gets through.
func run(ctx context.Context, o Options, wall []string) (err error) {
	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the demo took more than %s", patience))
	defer stop()
	// A reader that goes away must not end us before we have cleaned up.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, unix.SIGPIPE)
	defer signal.Stop(broken)
	stage := os.TempDir()
	if len(stage) >= 40 { // the path of a socket in it must be short
		stage = "/tmp"
	}
	dir, err := os.MkdirTemp(stage, "coffer-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, safepath.RemoveTree(dir)) }()
	show := &screen{ctx: ctx, w: o.Screen, color: o.Color, pace: o.Pace}
	show.headline()
	control, err := play(ctx, filepath.Join(dir, "outside"), o.Program, nil)
	if err != nil {
		return told(ctx, err)
	}
	inside, err := play(ctx, filepath.Join(dir, "sandbox"), o.Program, wall)
	if err != nil {
		return told(ctx, err)
	}
	worked := show.work(inside.steps, [2]string{wrong, right})
	results := compare(control, inside)
	show.misdeeds(results)
	sum := count(results)
	show.summary(sum, inside.took)
	if show.err == nil && (!worked || sum.failed > 0) {
		return ErrThrough
	}
	return told(ctx, show.err)
}

// told is why the context ended, if that is the reason for an error.
func told(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// A performance is what a play showed.
type performance struct {
	steps    []step
	reports  map[string]*report
	attempts map[string]attempt
	took     time.Duration
}

func compare(control, inside *performance) []result {
	var all []result
	for _, m := range misdeeds {
		before, now := control.attempts[m.name], inside.attempts[m.name]
		r := result{title: m.title, verdict: judge(before, now), outside: "works"}
		if !before.harmed {
			r.outside = "refused"
		}
		if r.verdict == stopped {
			r.wall = m.wall
		}
		all = append(all, r)
	}
	return all
}

// play builds a stage, runs the agent on it, and looks at the victims.
func play(ctx context.Context, dir, program string, wall []string) (p *performance, err error) {
	s, err := newStage(dir, program, len(wall) == 0)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return nil, err
	}
	p = &performance{reports: map[string]*report{}, attempts: map[string]attempt{}}
	err = s.perform(ctx, wall, p)
	if err != nil {
		return nil, err
	}
	for _, m := range misdeeds {
		r := p.reports[m.name]
		if r == nil {
			r = &report{Name: m.name, Errno: -1}
		}
		p.attempts[m.name] = attempt{report: p.reports[m.name], harmed: m.harm(s, *r)}
	}
	if !s.bare {
		gone := step{Name: "the sandbox is gone", Done: len(s.left()) == 0, Detail: "nothing of it is left on disk"}
		if !gone.Done {
			gone.Detail = "something of it is left on disk"
		}
		p.steps = append(p.steps, gone, landed(s.work))
	}
	return p, nil
}

// perform runs the agent, and takes down what it says.
func (s *stage) perform(ctx context.Context, wall []string, p *performance) error {
	if s.bare {
		wall = []string{s.program}
	}
	where, err := json.Marshal(s.target())
	if err != nil {
		return err
	}
	argv := slices.Concat(wall, []string{"demo", ActCommand, roleAgent, string(where)})
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said, complaint bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr = s.work, s.env(), &said, &complaint
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true} // Ctrl-C is for us
	c.Cancel = func() error { return c.Process.Signal(unix.SIGTERM) }
	c.WaitDelay = mercy
	begin := time.Now()
	err = c.Run()
	p.took = time.Since(begin)
	if err != nil {
		// If it was coffer that failed, it has said why, and what to do.
		return errors.New(strings.TrimSpace(fmt.Sprintf("the demo's agent did not finish: %v\n%s", err, complaint.String())))
	}
	for text := range bytes.Lines(said.Bytes()) {
		var l line
		if json.Unmarshal(text, &l) != nil {
			continue
		}
		switch {
		case l.Step != nil:
			p.steps = append(p.steps, *l.Step)
		case l.Report != nil:
			p.reports[l.Report.Name] = l.Report
		}
	}
	return nil
}
