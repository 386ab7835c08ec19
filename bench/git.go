package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// What git costs in a worktree sandbox: to make one, against a plain worktree; to work in
// one, against the plain worktree; and how long a commit made inside takes to be outside
// while the program that made it still runs.

const (
	treeBar    = 1.3  // × git worktree add
	arrivalBar = 1000 // ms
)

// gitCost is what the section measures.
type gitCost struct {
	Create  []series   `json:"create"` // native, coffer
	Work    []workload `json:"work"`
	Arrival series     `json:"arrival"`
	// Returned says of how many commits the branch outside had moved when the command that
	// made them returned.
	Returned tally `json:"returned"`
}

// tally counts what was as it should be.
type tally struct {
	Met int `json:"met"`
	Of  int `json:"of"`
}

func measureGit(ctx context.Context, l *lab, res *result) error {
	repository := filepath.Join(l.dir, "repository")
	if err := l.workspace(ctx, repository); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	for _, pair := range [][2]string{{"user.name", "bench"}, {"user.email", "bench@localhost"}} {
		if _, err := l.output(ctx, repository, git, "config", pair[0], pair[1]); err != nil {
			return err
		}
	}
	rounds := max(3, l.rounds/5) // each writes the whole tree
	cost := &gitCost{}
	cost.Create, err = race(ctx, l, "native", 1, rounds, []contender{
		{name: "native", command: "git worktree add", sample: l.plainTree(repository, git)},
		{name: "coffer", command: "coffer exec --create -- true", sample: l.sandboxTree(repository)},
	})
	if err != nil {
		return err
	}
	printSeries(cost.Create, "native")
	if err := l.gitWork(ctx, repository, git, cost); err != nil {
		return err
	}
	arrival, err := race(ctx, l, "arrival", 1, rounds, []contender{{name: "arrival", command: "git commit inside, seen outside", sample: l.arrival(repository, git)}})
	if err != nil {
		return err
	}
	cost.Arrival = arrival[0]
	printSeries(arrival, "arrival")
	if cost.Returned, err = l.returned(ctx, repository, git, rounds); err != nil {
		return err
	}
	fmt.Printf("outside when the command returns: %d of %d\n", cost.Returned.Met, cost.Returned.Of)
	res.Git = cost
	return nil
}

// plainTree times git worktree add.
func (l *lab) plainTree(repository, git string) func(context.Context) ([]time.Duration, error) {
	return func(ctx context.Context) ([]time.Duration, error) {
		tree := filepath.Join(l.dir, "plain")
		took, err := l.timed(ctx, repository, git, "worktree", "add", "-q", "-b", "plain", tree)
		if err == nil {
			_, err = l.output(ctx, repository, git, "worktree", "remove", "--force", tree)
		}
		if err == nil {
			_, err = l.output(ctx, repository, git, "branch", "-D", "plain")
		}
		return []time.Duration{took}, err
	}
}

// sandboxTree times a new worktree sandbox, with a program in it.
func (l *lab) sandboxTree(repository string) func(context.Context) ([]time.Duration, error) {
	return func(ctx context.Context) ([]time.Duration, error) {
		took, err := l.timed(ctx, repository, l.coffer, "exec", "--create", "--name", "bench-tree", "--", "true")
		_, rerr := l.output(context.Background(), repository, l.coffer, "rm", "--force", "--delete-branch", "bench-tree")
		return []time.Duration{took}, errors.Join(err, rerr)
	}
}

// gitWork compares git inside with git in a plain worktree.
func (l *lab) gitWork(ctx context.Context, repository, git string, cost *gitCost) error {
	tree := filepath.Join(l.dir, "plain")
	if _, err := l.output(ctx, repository, git, "worktree", "add", "-q", "-b", "plain", tree); err != nil {
		return err
	}
	if _, err := l.timed(ctx, repository, l.coffer, "exec", "--create", "--name", "bench-git", "--", "true"); err != nil {
		return err
	}
	l.sandboxes = append(l.sandboxes, "bench-git")
	for _, j := range []job{
		{"git status in a worktree", "git status --porcelain", l.warmup, l.rounds, []string{"-n", "3", "--", git, "status", "--porcelain"}},
		{"git commit in a worktree", "git commit --allow-empty -m x", l.warmup, l.rounds, []string{"-n", "3", "--", git, "commit", "-q", "--allow-empty", "-m", "x"}},
	} {
		pair, err := l.compareInside(ctx, repository, tree, j)
		if err != nil {
			return err
		}
		cost.Work = append(cost.Work, workload{Name: j.name, Native: pair[0], Sandbox: pair[1]})
		fmt.Printf("\n%s\n", j.name)
		printSeries(pair, "native")
	}
	return nil
}

// compareInside runs a job in turns in the worktree and in the sandbox, where one stopwatch
// stays each.
func (l *lab) compareInside(ctx context.Context, repository, tree string, j job) ([]series, error) {
	native, err := l.pace(ctx, tree, nil, j.args)
	if err != nil {
		return nil, err
	}
	defer native.close()
	inside, err := l.pace(ctx, repository, []string{l.coffer, "exec", "-m", "bench-git", "--"}, j.args)
	if err != nil {
		return nil, err
	}
	defer inside.close()
	return race(ctx, l, "native", j.warmup, j.rounds, []contender{
		{name: "native", command: j.shown, sample: native.sample},
		{name: "sandbox", command: j.shown, sample: inside.sample},
	})
}

// arrival times how long it takes from the end of a commit inside until the branch outside
// has moved. Both ends look at the same clock.
func (l *lab) arrival(repository, git string) func(context.Context) ([]time.Duration, error) {
	ref := filepath.Join(repository, ".git/refs/heads/coffer/bench-git")
	return func(ctx context.Context) ([]time.Duration, error) {
		was, _ := os.ReadFile(ref)
		seen := make(chan time.Time, 1)
		ctx, cancel := context.WithTimeout(ctx, trialLimit)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				if now, err := os.ReadFile(ref); err == nil && string(now) != string(was) {
					seen <- time.Now()
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		out, err := l.output(ctx, repository, l.coffer, "exec", "-m", "bench-git", "--", "sh", "-c", git+" commit -q --allow-empty -m x; date +%s%N; sleep 1.5")
		if err != nil {
			return nil, err
		}
		var made int64
		if _, err := fmt.Sscan(string(out), &made); err != nil {
			return nil, err
		}
		select {
		case at := <-seen:
			return []time.Duration{at.Sub(time.Unix(0, made))}, nil
		case <-ctx.Done():
			return nil, errors.New("it did not arrive")
		}
	}
}

// returned commits inside, and looks at the branch outside at once when the command has
// returned.
func (l *lab) returned(ctx context.Context, repository, git string, rounds int) (t tally, err error) {
	ref := filepath.Join(repository, ".git/refs/heads/coffer/bench-git")
	for range rounds {
		was, _ := os.ReadFile(ref)
		if _, err := l.output(ctx, repository, l.coffer, "exec", "-m", "bench-git", "--", git, "commit", "-q", "--allow-empty", "-m", "x"); err != nil {
			return t, err
		}
		now, _ := os.ReadFile(ref)
		if t.Of++; string(now) != string(was) {
			t.Met++
		}
	}
	return t, nil
}

func (r *result) judgeGit() {
	create := "make a worktree sandbox, p50"
	if r.Git == nil {
		r.unmeasured(create, fmt.Sprintf("≤ %g × git worktree add", treeBar))
		return
	}
	r.ratioBar(create, "git worktree add", treeBar, find(r.Git.Create, "coffer"), find(r.Git.Create, "native"), func(s *series) float64 { return s.P50 })
	for i := range r.Git.Work {
		w := &r.Git.Work[i]
		r.ratioBar(w.Name+", p50", "native", workBar, &w.Sandbox, &w.Native, func(s *series) float64 { return s.P50 })
	}
	if a := &r.Git.Arrival; a.measured() {
		r.bar("commit inside to branch outside, p90", fmt.Sprintf("≤ %d ms", arrivalBar), fmt.Sprintf("%.0f ms", a.P90), a.P90 <= arrivalBar)
	}
	if t := r.Git.Returned; t.Of > 0 {
		r.bar("commit outside when exec returns", "always", fmt.Sprintf("%d of %d", t.Met, t.Of), t.Met == t.Of)
	}
}
