package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A pacer is a stopwatch that waits for its turn: natively or in a running sandbox, it
// stays between the rounds. What a sandbox does when a program has ended, such as bringing
// commits over, is then not beside the next measurement, as it is not in a shell or an
// agent that runs one command after the other.
type pacer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// pace starts the stopwatch in a workspace, by the command that enters the sandbox if
// there is one.
func (l *lab) pace(ctx context.Context, dir string, enter, args []string) (*pacer, error) {
	argv := append(append(append([]string{}, enter...), "./stopwatch", "-serve"), args...)
	if enter == nil {
		argv[0] = filepath.Join(dir, "stopwatch")
	}
	p := &pacer{cmd: l.command(ctx, dir, argv...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// sample has the stopwatch run once more, and reads its times.
func (p *pacer) sample(context.Context) (ds []time.Duration, err error) {
	late := time.AfterFunc(trialLimit, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return nil, err
	}
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("the stopwatch has ended: %w", err)
		}
		if line = strings.TrimSpace(line); line == "" {
			return ds, nil
		}
		ns, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the stopwatch printed %q", line)
		}
		ds = append(ds, time.Duration(ns))
	}
}

func (p *pacer) close() {
	p.in.Close()
	p.cmd.Wait()
}
