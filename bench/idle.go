package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idleCost is what a sandbox takes from the machine while nothing runs in it:
// its supervisor and every process below it, which is the whole sandbox, since
// a sandbox never outlives its supervisor.
type idleCost struct {
	Processes int     `json:"processes"`
	RSS       float64 `json:"rss_mb"`
	// PSS counts a page shared by n processes as 1/n, so it is the fair sum;
	// RSS counts it n times. 0 if the kernel would not let us read it.
	PSS     float64 `json:"pss_mb,omitempty"`
	Seconds float64 `json:"seconds"`
	Spent   float64 `json:"cpu_ms"`
	CPU     float64 `json:"cpu_percent"`
}

// settle is how long the sandbox gets to finish what its start left over.
const settle = 2 * time.Second

func measureIdle(ctx context.Context, l *lab, res *result) error {
	if _, err := l.create(ctx, filepath.Join(l.dir, "small"), "bench-idle"); err != nil {
		return err
	}
	pids, err := l.pids(ctx)
	if err != nil {
		return err
	}
	pid, ok := pids["bench-idle"]
	if !ok {
		return errors.New("coffer ls --json names no pid for the sandbox")
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	before, err := family(pid)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := sleep(ctx, time.Duration(l.idle)*time.Second); err != nil {
		return err
	}
	after, err := family(pid)
	if err != nil {
		return fmt.Errorf("the sandbox did not stay: %w", err)
	}
	cost := &idleCost{Processes: len(after), Seconds: round3(time.Since(start).Seconds())}
	pssKnown := true
	for pid, p := range after {
		cost.RSS += p.rss
		pss, err := proportional(pid)
		cost.PSS += pss
		pssKnown = pssKnown && err == nil
		cost.Spent += float64(p.spent-before[pid].spent) / float64(time.Millisecond)
	}
	if !pssKnown {
		cost.PSS = 0
	}
	cost.RSS, cost.PSS = round3(cost.RSS), round3(cost.PSS)
	cost.Spent = round3(cost.Spent)
	cost.CPU = round3(cost.Spent / 10 / cost.Seconds)
	res.Idle = cost
	fmt.Printf("%d processes, RSS %.1f MB, PSS %s, %.1f ms of CPU in %.1f s (%.2f %%)\n",
		cost.Processes, cost.RSS, orUnknown(cost.PSS, "%.1f MB"), cost.Spent, cost.Seconds, cost.CPU)
	return nil
}

// process is what /proc says about one process at one moment.
type process struct {
	parent int
	spent  time.Duration
	rss    float64 // MB
}

// family reads the process pid and all its descendants.
func family(pid int) (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process may end between the listing and the reading.
		if p, err := readProcess(id); err == nil {
			all[id] = p
		}
	}
	if _, ok := all[pid]; !ok {
		return nil, fmt.Errorf("no process %d", pid)
	}
	ours := map[int]process{}
	for id, p := range all {
		for up := id; up > 1; up = all[up].parent {
			if up == pid {
				p.spent = spent(id)
				ours[id] = p
				break
			}
		}
	}
	return ours, nil
}

// readProcess parses /proc/PID/stat; see proc_pid_stat(5) for the numbers.
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The name in parentheses may itself hold spaces and parentheses.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 22 {
		return process{}, fmt.Errorf("short stat line for process %d", pid)
	}
	number := func(field int) int {
		n, _ := strconv.Atoi(fields[field-3]) // field 3 is the first after the name
		return n
	}
	return process{
		parent: number(4),
		rss:    float64(number(24)) * float64(os.Getpagesize()) / 1e6,
	}, nil
}

// spent is how long the threads of a process have run, to the nanosecond. What is in its stat
// line is counted by samples, a hundred per second: too few for one that sleeps.
func spent(pid int) (all time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, t := range threads {
		text, err := os.ReadFile(t)
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
			n, _ := strconv.ParseInt(fields[0], 10, 64)
			all += time.Duration(n)
		}
	}
	return all
}

// proportional reads the PSS of a process in MB.
func proportional(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, err := strconv.Atoi(f[1])
			return float64(kb) * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("no Pss line for process %d", pid)
}

// sleep waits, unless the bench is interrupted.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
