package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A contender is one row of a comparison.
type contender struct {
	name    string
	command string // as a reader would type it
	version string
	missing string // why it cannot run here; empty if it can
	// sample runs the contender once and returns what it timed: one duration
	// for a process, several for a stopwatch that ran its command repeatedly.
	sample func(context.Context) ([]time.Duration, error)
}

// A series is what was measured of one contender. Times are milliseconds.
type series struct {
	Name        string  `json:"name"`
	Command     string  `json:"command"`
	Version     string  `json:"version,omitempty"`
	NotMeasured string  `json:"not_measured,omitempty"`
	Samples     int     `json:"samples,omitempty"`
	Failures    int     `json:"failures,omitempty"`
	Min         float64 `json:"min_ms,omitempty"`
	P50         float64 `json:"p50_ms,omitempty"`
	P90         float64 `json:"p90_ms,omitempty"`
	MinRatio    float64 `json:"min_ratio,omitempty"` // to the base of the comparison
	P50Ratio    float64 `json:"p50_ratio,omitempty"`
}

func (s *series) measured() bool { return s != nil && s.NotMeasured == "" && s.Samples > 0 }

// race runs the contenders interleaved and returns one series for each, in the
// order given. The first contender that could be measured with the name base
// is what the ratios refer to.
func race(ctx context.Context, l *lab, base string, warmup, rounds int, contenders []contender) ([]series, error) {
	out := make([]series, len(contenders))
	times := make([][]time.Duration, len(contenders))
	var order []int
	for i, c := range contenders {
		out[i] = series{Name: c.name, Command: l.neutral(c.command), Version: c.version, NotMeasured: c.missing}
		if c.missing != "" {
			continue
		}
		if _, err := c.sample(ctx); err != nil {
			out[i].NotMeasured = l.neutral("first trial failed: " + err.Error())
			continue
		}
		order = append(order, i)
	}
	for round := range warmup + rounds {
		rand.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		for _, i := range order {
			ds, err := contenders[i].sample(ctx)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			switch {
			case round < warmup:
			case err != nil:
				// A failed run has no meaningful time, but hiding it would
				// flatter the contender.
				out[i].Failures++
			default:
				times[i] = append(times[i], ds...)
			}
		}
	}
	for i := range out {
		out[i].summarize(times[i])
	}
	compare(out, base)
	return out, nil
}

func (s *series) summarize(ds []time.Duration) {
	if s.NotMeasured != "" {
		return
	}
	if len(ds) == 0 {
		s.NotMeasured = fmt.Sprintf("all %d runs failed", s.Failures)
		return
	}
	slices.Sort(ds)
	s.Samples = len(ds)
	s.Min = millis(ds[0])
	s.P50 = millis(quantile(ds, 0.5))
	s.P90 = millis(quantile(ds, 0.9))
}

// compare fills in the ratios to the series called base.
func compare(all []series, base string) {
	b := find(all, base)
	if !b.measured() {
		return
	}
	for i := range all {
		if all[i].measured() {
			all[i].MinRatio = round3(all[i].Min / b.Min)
			all[i].P50Ratio = round3(all[i].P50 / b.P50)
		}
	}
}

func find(all []series, name string) *series {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// quantile picks the nearest rank from sorted durations: always a time that
// was really measured, never an interpolation.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// median does not disturb the order of ds.
func median(ds []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(ds))
	return quantile(sorted, 0.5)
}

func millis(d time.Duration) float64 { return round3(float64(d) / float64(time.Millisecond)) }

func round3(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }
