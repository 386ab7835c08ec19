package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// A plot is a stack of groups of rows over one logarithmic axis, of time unless
// it says another. Each row is a range bar: its left end is the minimum, its right
// end the 90th percentile, the line across it the median.
//
// The SVG has no background and only mid-bright colours, so that it reads on a
// light page and on a dark one.
type plot struct {
	title  string
	sub    string
	groups []group
	axis   string // what is under it; empty for times
	corner string // what the numbers of a row are
}

const (
	timeAxis   = "milliseconds, logarithmic: bar from minimum to 90th percentile, line at the median"
	timeCorner = "min / median / p90, ms"
)

type group struct {
	title string
	rows  []series
	ours  string // the row to highlight
}

const (
	plotWidth  = 860
	plotLeft   = 200 // room for the names
	plotRight  = 190 // room for the numbers
	plotTop    = 64
	rowHeight  = 26
	groupSpace = 34

	inkColor  = "#7d8590"
	gridColor = "#7d859040"
	peerColor = "#6e8fb8"
	oursColor = "#e0803a"
)

// savePlots draws what the run has.
func savePlots(dir string, r *result) error {
	sub := fmt.Sprintf("as %s, kernel %s, %d cores, %d interleaved rounds", r.User, r.Kernel, r.Cores, r.Rounds)
	start := plot{title: "Running true in a sandbox", sub: sub}
	if len(r.Cold) > 0 {
		start.groups = append(start.groups, group{"cold start", r.Cold, nameCoffer})
	}
	if len(r.Exec) > 0 {
		start.groups = append(start.groups, group{"in a running sandbox", r.Exec, nameExec})
	}
	work := plot{title: "Work in the workspace, timed inside", sub: sub}
	for _, w := range r.Work {
		work.groups = append(work.groups, group{w.Name, []series{w.Native, w.Sandbox}, "sandbox"})
	}
	plots := map[string]plot{"start": start, "work": work}
	if r.Network != nil {
		plots["throughput"], plots["latency"] = r.Network.plots(fmt.Sprintf("as %s, kernel %s, %d cores, %d interleaved rounds", r.User, r.Kernel, r.Cores, r.Network.Rounds))
	}
	for name, p := range plots {
		if !p.drawable() {
			continue
		}
		file := filepath.Join(dir, name+"-"+r.User+".svg")
		if err := os.WriteFile(file, []byte(p.svg()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (p plot) drawable() bool {
	for _, g := range p.groups {
		for i := range g.rows {
			if g.rows[i].measured() {
				return true
			}
		}
	}
	return false
}

// span is the time axis: from the 1-2-5 step below the smallest number to the
// one above the largest.
func (p plot) span() (low, high float64) {
	low, high = math.Inf(1), 0
	for _, g := range p.groups {
		for i := range g.rows {
			if s := &g.rows[i]; s.measured() {
				low, high = min(low, s.Min), max(high, s.P90)
			}
		}
	}
	from, to := low, high
	for _, t := range ticks(low/10, high*10) {
		if t <= low {
			from = t
		}
		if t >= high {
			to = t
			break
		}
	}
	return from, to
}

func (p plot) svg() string {
	low, high := p.span()
	scale := func(ms float64) float64 {
		return plotLeft + (plotWidth-plotLeft-plotRight)*math.Log(ms/low)/math.Log(high/low)
	}
	var body strings.Builder
	y := float64(plotTop)
	for _, g := range p.groups {
		y += groupSpace
		text(&body, 16, y-10, "start", 13, "bold", inkColor, g.title)
		for i := range g.rows {
			drawRow(&body, &g.rows[i], y, scale, g.rows[i].Name == g.ours)
			y += rowHeight
		}
	}
	bottom := y + 6
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" height="%.0f" font-family="system-ui, sans-serif" role="img">`+"\n",
		plotWidth, bottom+52, plotWidth, bottom+52)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(p.title))
	text(&b, 16, 28, "start", 17, "bold", inkColor, p.title)
	text(&b, 16, 48, "start", 12, "normal", inkColor, p.sub)
	for _, t := range ticks(low, high) {
		x := scale(t)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x, plotTop, x, bottom, gridColor)
		text(&b, x, bottom+16, "middle", 11, "normal", inkColor, fmt.Sprintf("%g", t))
	}
	text(&b, (plotLeft+plotWidth-plotRight)/2, bottom+38, "middle", 12, "normal", inkColor,
		cmp.Or(p.axis, timeAxis))
	text(&b, plotWidth-16, plotTop-4, "end", 11, "normal", inkColor, cmp.Or(p.corner, timeCorner))
	return b.String() + body.String() + "</svg>\n"
}

// drawRow draws one contender with its name on the left and numbers on the
// right.
func drawRow(b *strings.Builder, s *series, y float64, scale func(float64) float64, ours bool) {
	color, weight := peerColor, "normal"
	if ours {
		color, weight = oursColor, "bold"
	}
	middle := y + rowHeight/2
	text(b, plotLeft-10, middle+4, "end", 12, weight, inkColor, s.Name)
	if !s.measured() {
		text(b, plotLeft+6, middle+4, "start", 11, "normal", inkColor, "not measured: "+shorten(s.NotMeasured, 80))
		return
	}
	left, mid, right := scale(s.Min), scale(s.P50), scale(s.P90)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="12" rx="2" fill="%s" fill-opacity="0.55"/>`+"\n",
		left, middle-6, max(2, right-left), color)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="3" height="18" fill="%s"/>`+"\n", mid-1.5, middle-9, color)
	numbers := fmt.Sprintf("%s / %s / %s", short(s.Min), short(s.P50), short(s.P90))
	text(b, plotWidth-16, middle+4, "end", 12, weight, inkColor, numbers)
}

func text(b *strings.Builder, x, y float64, anchor string, size int, weight, color, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" font-weight="%s" fill="%s">%s</text>`+"\n",
		x, y, anchor, size, weight, color, html.EscapeString(s))
}

// ticks are the 1-2-5 steps within low and high.
func ticks(low, high float64) []float64 {
	var out []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if t := m * math.Pow(10, e); t >= low*0.999 && t <= high*1.001 {
				out = append(out, t)
			}
		}
	}
	return out
}

// short writes milliseconds with about three digits.
func short(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.0f", ms)
	}
}

func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
