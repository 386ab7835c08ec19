package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// result is one run of the bench. results.json holds the latest run of each
// kind of user, under "root" and "user": the kernel gives the two different
// rights, so their numbers are two findings and not one.
type result struct {
	When        string            `json:"when"`
	User        string            `json:"user"`
	Kernel      string            `json:"kernel"`
	Cores       int               `json:"cores"`
	LoadBefore  string            `json:"load_before"`
	LoadAfter   string            `json:"load_after"`
	Rounds      int               `json:"rounds"`
	Cold        []series          `json:"cold_start,omitempty"`
	Exec        []series          `json:"exec,omitempty"`
	Work        []workload        `json:"work,omitempty"`
	Git         *gitCost          `json:"git,omitempty"`
	Idle        *idleCost         `json:"idle,omitempty"`
	Many        *crowd            `json:"many,omitempty"`
	Network     *networkCost      `json:"network,omitempty"`
	Checkpoint  []series          `json:"checkpoint,omitempty"`
	Caches      []cacheGain       `json:"caches,omitempty"`
	NotMeasured map[string]string `json:"not_measured,omitempty"` // by section
	Bars        []bar             `json:"bars"`
}

func newResult(l *lab) *result {
	user := "user"
	if os.Geteuid() == 0 {
		user = "root"
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-") // without the builder's suffix
	return &result{
		When:        time.Now().UTC().Format(time.RFC3339),
		User:        user,
		Kernel:      kernel,
		Cores:       runtime.NumCPU(),
		LoadBefore:  load(),
		Rounds:      l.rounds,
		NotMeasured: map[string]string{},
	}
}

// load is the three load averages.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	f := strings.Fields(string(text))
	return strings.Join(f[:min(3, len(f))], " ")
}

func printMachine(r *result) {
	fmt.Printf("kernel %s, %d cores, load %s, as %s, %d rounds\n", r.Kernel, r.Cores, r.LoadBefore, r.User, r.Rounds)
}

// printSeries prints one comparison as a table, times in milliseconds.
func printSeries(all []series, base string) {
	fmt.Printf("%-18s %9s %9s %9s   %s\n", "", "min", "p50", "p90", "min, p50 ÷ "+base)
	for _, s := range all {
		if !s.measured() {
			fmt.Printf("%-18s not measured: %s\n", s.Name, s.NotMeasured)
			continue
		}
		ratio := ""
		if s.MinRatio > 0 {
			ratio = fmt.Sprintf("%.2f, %.2f", s.MinRatio, s.P50Ratio)
		}
		if s.Failures > 0 {
			ratio += fmt.Sprintf("   (%d runs failed)", s.Failures)
		}
		fmt.Printf("%-18s %9.2f %9.2f %9.2f   %s\n", s.Name, s.Min, s.P50, s.P90, ratio)
	}
}

// orUnknown formats a number that is 0 when it could not be found out.
func orUnknown(f float64, format string) string {
	if f == 0 {
		return "unknown"
	}
	return fmt.Sprintf(format, f)
}

// readResults reads results.json, in which there may be nothing yet.
func readResults(dir string) (map[string]json.RawMessage, error) {
	runs := map[string]json.RawMessage{}
	file := filepath.Join(dir, "results.json")
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return runs, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return runs, nil
}

// lastResult is the last run of this kind of user, with the sections of now in the
// place of its own.
func lastResult(dir string, now *result) (*result, error) {
	runs, err := readResults(dir)
	if err != nil || runs[now.User] == nil {
		return now, err
	}
	var last result
	if err := json.Unmarshal(runs[now.User], &last); err != nil {
		return nil, err
	}
	if last.Kernel != now.Kernel || last.Cores != now.Cores {
		return nil, errors.New("the last results are of another machine")
	}
	last.Cold, last.Exec = orOlder(now.Cold, last.Cold), orOlder(now.Exec, last.Exec)
	last.Work, last.Checkpoint = orOlder(now.Work, last.Work), orOlder(now.Checkpoint, last.Checkpoint)
	last.Caches = orOlder(now.Caches, last.Caches)
	last.Git = cmp.Or(now.Git, last.Git)
	last.Idle, last.Many, last.Network = cmp.Or(now.Idle, last.Idle), cmp.Or(now.Many, last.Many), cmp.Or(now.Network, last.Network)
	last.Bars = nil
	last.judge()
	return &last, nil
}

func orOlder[T any](now, older []T) []T {
	if len(now) > 0 {
		return now
	}
	return older
}

// save puts the run into results.json beside the run of the other kind of
// user, and draws its plots.
func save(dir string, r *result) error {
	runs, err := readResults(dir)
	if err != nil {
		return err
	}
	if runs[r.User], err = json.Marshal(r); err != nil {
		return err
	}
	text, err := json.MarshalIndent(runs, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return savePlots(dir, r)
}
