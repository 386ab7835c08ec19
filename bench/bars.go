package main

import "fmt"

// A bar is one goal of the project and what this run says about it.
type bar struct {
	Measure string `json:"measure"`
	Bar     string `json:"bar"`
	Got     string `json:"got"`
	Verdict string `json:"verdict"` // ok, missed or not measured
}

// The goals. They are ratios where a ratio is possible, since only those mean
// the same on every machine.
const (
	coldBar  = 4.0  // × bwrap, the lightest complete sandbox there is; of a jail too
	execBar  = 5.0  // × the no-op Go binary
	workBar  = 1.1  // × native
	idleBar  = 45.0 // MB
	crowdBar = 1.5  // × the first
)

// judge fills in the bars from what was measured.
func (r *result) judge() {
	r.judgeCold()
	exec, noop := find(r.Exec, nameExec), find(r.Exec, nameNoop)
	r.ratioBar("exec p50", "no-op Go", execBar, exec, noop, func(s *series) float64 { return s.P50 })
	if len(r.Work) == 0 {
		r.unmeasured("work in the workspace", fmt.Sprintf("≤ %g × native", workBar))
	}
	for i := range r.Work {
		w := &r.Work[i]
		r.ratioBar(w.Name+", p50", "native", workBar, &w.Sandbox, &w.Native, func(s *series) float64 { return s.P50 })
	}
	r.judgeGit()
	r.judgeIdle()
	r.judgeCrowd()
	r.judgeNetwork()
	r.judgeCheckpoint()
	r.judgeCaches()
}

func (r *result) judgeCold() {
	minimum := func(s *series) float64 { return s.Min }
	coffer := find(r.Cold, nameCoffer)
	r.ratioBar("cold start min", nameBwrap, coldBar, coffer, find(r.Cold, nameBwrap), minimum)
	for _, peer := range []string{"runc", "codex", "podman", "srt"} {
		r.ratioBar("cold start min", peer, 1, coffer, find(r.Cold, peer), minimum)
	}
	r.ratioBar("jail start min", nameBwrap, coldBar, find(r.Cold, nameJail), find(r.Cold, nameBwrap), minimum)
}

// ratioBar compares one number of two series of the same run.
func (r *result) ratioBar(measure, than string, factor float64, got, base *series, number func(*series) float64) {
	wanted := fmt.Sprintf("≤ %g × %s", factor, than)
	if factor == 1 {
		wanted = "below " + than
	}
	if !got.measured() || !base.measured() {
		r.unmeasured(measure, wanted)
		return
	}
	ratio := number(got) / number(base)
	r.bar(measure, wanted, fmt.Sprintf("%.2f × (%.2f of %.2f ms)", ratio, number(got), number(base)), ratio <= factor)
}

func (r *result) judgeIdle() {
	memory, cpu := fmt.Sprintf("≤ %g MB", idleBar), "0 %"
	if r.Idle == nil {
		r.unmeasured("idle RSS", memory)
		r.unmeasured("idle CPU", cpu)
		return
	}
	r.bar("idle RSS", memory, fmt.Sprintf("%.1f MB (PSS %s)", r.Idle.RSS, orUnknown(r.Idle.PSS, "%.1f MB")), r.Idle.RSS <= idleBar)
	r.bar("idle CPU", cpu, fmt.Sprintf("%.1f %% (%.1f ms in %.0f s)", r.Idle.CPU, r.Idle.Spent, r.Idle.Seconds), r.Idle.CPU < 0.05)
}

func (r *result) judgeCrowd() {
	answer, last := "all", fmt.Sprintf("≤ %g × the first", crowdBar)
	if r.Many == nil {
		r.unmeasured("many sandboxes answer", answer)
		r.unmeasured("start of the last", last)
		return
	}
	m := r.Many
	r.bar("many sandboxes answer", answer, fmt.Sprintf("%d of %d", m.Answered, m.Sandboxes), m.Answered == m.Sandboxes)
	r.bar("start of the last", last, fmt.Sprintf("%.2f × (%.1f of %.1f ms)", m.Ratio, m.LastCreate, m.FirstCreate), m.Ratio <= crowdBar)
}

func (r *result) bar(measure, wanted, got string, met bool) {
	verdict := "missed"
	if met {
		verdict = "ok"
	}
	r.Bars = append(r.Bars, bar{measure, wanted, got, verdict})
}

func (r *result) unmeasured(measure, wanted string) {
	r.Bars = append(r.Bars, bar{measure, wanted, "", "not measured"})
}

func printBars(r *result) {
	fmt.Printf("\n== bars, as %s, load %s before and %s after ==\n", r.User, r.LoadBefore, r.LoadAfter)
	fmt.Printf("%-36s %-20s %-32s %s\n", "measure", "bar", "got", "")
	for _, b := range r.Bars {
		fmt.Printf("%-36s %-20s %-32s %s\n", b.Measure, b.Bar, b.Got, b.Verdict)
	}
}
