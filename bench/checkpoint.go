package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// checkpointBar is how long a checkpoint of ten changed files may take, in milliseconds,
// in a repository of 18,000.
const checkpointBar = 150.0

// Names of the rows about checkpoints.
const (
	nameTrueTree    = "true, in a worktree"
	nameWriteAside  = "10 files elsewhere"
	nameCheckpoint  = "git-checkpoint"
	checkpointTitle = "checkpoint of 10 changed files, p50"
)

// measureCheckpoints times what a checkpoint adds to a command that changes ten files of a large
// worktree, against the same command that writes them elsewhere, which takes none.
func measureCheckpoints(ctx context.Context, l *lab, res *result) error {
	dir := filepath.Join(l.dir, "checkpoint")
	if err := l.workspace(ctx, dir); err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	const name = "bench-checkpoint"
	l.sandboxes = append(l.sandboxes, name)
	if _, err := l.output(ctx, dir, l.coffer, "exec", "--create", "--workspace", "worktree", "--name", name, "--", "true"); err != nil {
		return err
	}
	run := func(command ...string) func(context.Context) ([]time.Duration, error) {
		argv := append([]string{l.coffer, "exec", "-m", name, "--"}, command...)
		return func(ctx context.Context) ([]time.Duration, error) {
			took, err := l.timed(ctx, dir, argv...)
			return []time.Duration{took}, err
		}
	}
	const write = `for i in 0 1 2 3 4 5 6 7 8 9; do echo "$$ $(cat /proc/uptime)" >$1/file$i.txt; done`
	all, err := race(ctx, l, nameWriteAside, l.warmup, l.rounds, []contender{
		{name: nameTrueTree, command: "coffer exec -m NAME -- true", sample: run("true")},
		{name: nameWriteAside, command: "coffer exec -m NAME -- sh -c …", sample: run("sh", "-c", write, "sh", "/tmp")},
		{name: nameCheckpoint, command: "coffer exec -m NAME -- sh -c …", sample: run("sh", "-c", write, "sh", "area0/part0")},
	})
	if err != nil {
		return err
	}
	res.Checkpoint = all
	printSeries(all, nameWriteAside)
	return nil
}

func (r *result) judgeCheckpoint() {
	wanted := fmt.Sprintf("≤ %g ms", checkpointBar)
	with, without := find(r.Checkpoint, nameCheckpoint), find(r.Checkpoint, nameWriteAside)
	if !with.measured() || !without.measured() {
		r.unmeasured(checkpointTitle, wanted)
		return
	}
	cost := with.P50 - without.P50
	r.bar(checkpointTitle, wanted, fmt.Sprintf("%.1f ms (%.1f - %.1f ms)", cost, with.P50, without.P50), cost <= checkpointBar)
}
