package main

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// Names that the bars and the ratios refer to.
const (
	nameTrue    = "fork+exec true"
	nameNoop    = "no-op Go binary"
	nameCopied  = "no-op, a copy"
	nameBwrap   = "bwrap"
	nameLandrun = "landrun"
	nameStandIn = "landrun stand-in"
	nameCoffer  = "coffer run"
	nameJail    = "coffer jail"
	nameExec    = "coffer exec"
)

// measureCold times `true` from nothing: every sample makes a sandbox, runs
// the command in it and takes the sandbox away again.
func measureCold(ctx context.Context, l *lab, res *result) error {
	contenders := []contender{l.plainTrue(), l.plainNoop()}
	contenders = append(contenders, l.peerContenders(ctx)...)
	contenders = append(contenders, l.cofferRun(ctx), l.cofferJail(ctx))
	all, err := race(ctx, l, nameBwrap, l.warmup, l.rounds, contenders)
	if err != nil {
		return err
	}
	res.Cold = all
	printSeries(all, nameBwrap)
	return nil
}

// measureExec times `true` in a sandbox that is running already. The base is
// the no-op Go binary: what a Go command line costs before it does anything.
func measureExec(ctx context.Context, l *lab, res *result) error {
	dir := filepath.Join(l.dir, "small")
	if _, err := l.create(ctx, dir, "bench-exec"); err != nil {
		return err
	}
	argv := []string{l.coffer, "exec", "-m", "bench-exec", "--", "true"}
	all, err := race(ctx, l, nameNoop, l.warmup, l.rounds, []contender{
		l.plainTrue(),
		l.plainNoop(),
		l.copiedNoop(),
		{
			name:    nameExec,
			command: "coffer exec -m NAME -- true",
			version: l.version(ctx, l.coffer, "--version"),
			sample:  l.process(dir, argv...),
		},
	})
	if err != nil {
		return err
	}
	res.Exec = all
	printSeries(all, nameNoop)
	return nil
}

func (l *lab) plainTrue() contender {
	return contender{name: nameTrue, command: "/bin/true", sample: l.process(l.dir, "/bin/true")}
}

func (l *lab) plainNoop() contender {
	return contender{name: nameNoop, command: "func main() {}", sample: l.process(l.dir, l.noop)}
}

// copiedNoop is the no-op as an installed one would be. The kernel starts a copy faster than
// a file as the linker leaves it.
func (l *lab) copiedNoop() contender {
	c := contender{name: nameCopied, command: "cp", sample: l.process(l.dir, l.noop+".copy")}
	data, err := os.ReadFile(l.noop)
	if err == nil {
		err = os.WriteFile(l.noop+".copy", data, 0o755)
	}
	if err != nil {
		c.missing = l.neutral(err.Error())
	}
	return c
}

func (l *lab) cofferRun(ctx context.Context) contender {
	c := contender{
		name:    nameCoffer,
		command: "coffer run -- true",
		sample:  l.process(filepath.Join(l.dir, "small"), l.coffer, "run", "--", "true"),
	}
	if _, err := os.Stat(l.coffer); err != nil {
		c.missing = errNoCoffer.Error()
		return c
	}
	c.version = l.version(ctx, l.coffer, "--version")
	return c
}

// cofferJail is without what it says, because a peer says nothing either.
func (l *lab) cofferJail(ctx context.Context) contender {
	c := l.cofferRun(ctx)
	c.name, c.command = nameJail, "coffer jail -q -- true"
	c.sample = l.process(filepath.Join(l.dir, "small"), l.coffer, "jail", "-q", "--", "true")
	return c
}

// process is a sample that times one command from fork to wait.
func (l *lab) process(dir string, argv ...string) func(context.Context) ([]time.Duration, error) {
	return func(ctx context.Context) ([]time.Duration, error) {
		took, err := l.timed(ctx, dir, argv...)
		return []time.Duration{took}, err
	}
}
