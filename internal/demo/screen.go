package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/terminal"
)

// The columns, 80 in all.
const (
	titleWidth = 35
	outWidth   = 9
	wallWidth  = 80 - 4 - titleWidth - outWidth
)

type screen struct {
	ctx   context.Context
	w     io.Writer
	color bool
	pace  time.Duration
	err   error // the first failure to print
}

// Colours of the terminal's own palette, so that they suit any background.
const (
	bold  = "1"
	dim   = "2"
	red   = "1;31"
	green = "32"
)

func (s *screen) paint(style, text string) string {
	if !s.color || style == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// print shows a line, and waits a moment.
func (s *screen) print(parts ...string) {
	if s.err != nil {
		return
	}
	if _, s.err = fmt.Fprintln(s.w, strings.TrimRight(strings.Join(parts, ""), " ")); s.err != nil || s.pace == 0 {
		return
	}
	select {
	case <-s.ctx.Done():
		s.err = context.Cause(s.ctx)
	case <-time.After(s.pace):
	}
}

func (s *screen) headline() {
	s.print("  ", s.paint(bold, "coffer demo"), s.paint(dim, "  a scripted agent, a made-up home, a real sandbox"))
	s.print()
}

// work shows the honest part.
func (s *screen) work(steps []step, change [2]string) (ok bool) {
	s.print("  ", s.paint(bold, "honest work"), s.paint(dim, "  in ~/greeter, which is all of the home that it sees"))
	ok = true
	for _, st := range steps {
		mark := s.paint(green, "✓")
		if !st.Done {
			mark, ok = s.paint(red, "✗"), false
		}
		s.print("  ", mark, " ", fit(st.Name, titleWidth), s.paint(dim, clip(st.Detail, outWidth+wallWidth)))
	}
	s.print("      ", s.paint("31", "- "+change[0]))
	s.print("      ", s.paint(green, "+ "+change[1]))
	s.print()
	return ok
}

func (s *screen) misdeeds(results []result) {
	s.print("  ", s.paint(bold, fit("misdeeds", titleWidth+2)), s.paint(dim, fit("outside", outWidth)+"in the sandbox, stopped by"))
	for _, r := range results {
		mark, out, wall := s.paint(green, "✓"), fit(r.outside, outWidth), clip(r.wall, wallWidth)
		title := fit(r.title, titleWidth)
		switch r.verdict {
		case through:
			mark, title, wall = s.paint(red, "✗"), s.paint(red, title), s.paint(red, "NOTHING: it got through")
		case untried:
			mark, title, wall = s.paint(red, "✗"), s.paint(red, title), s.paint(red, "unknown: it was not tried")
		case moot:
			mark, wall = s.paint(dim, "–"), s.paint(dim, "this machine refuses it anyway")
		}
		s.print("  ", mark, " ", title, s.paint(dim, out), wall)
	}
	s.print()
}

func (s *screen) summary(t tally, took time.Duration) {
	style, text := green, fmt.Sprintf("%d misdeeds, %d stopped", t.tried, t.stopped)
	if t.stopped == t.tried {
		text = fmt.Sprintf("%d misdeeds, all stopped", t.tried)
	}
	if t.moot > 0 {
		text += fmt.Sprintf(", %d impossible here anyway", t.moot)
	}
	if t.failed > 0 {
		style = red
		text += fmt.Sprintf(", %d NOT STOPPED", t.failed)
	}
	s.print("  ", s.paint(style, text), s.paint(dim, fmt.Sprintf("  the sandbox was made, used and removed in %.2f s", took.Seconds())))
	if t.failed > 0 {
		s.print("  please report this, with the output of 'coffer doctor'")
		return
	}
	s.print("  ", s.paint(dim, "next, in a project of yours:"), "  coffer run -- bash")
}

// fit pads or clips to a width.
func fit(text string, width int) string {
	text = clip(text, width)
	return text + strings.Repeat(" ", width-utf8.RuneCountInString(text))
}

// clip makes one line that fits of what may come from inside the sandbox.
func clip(text string, width int) string {
	text = terminal.Escape(text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// A verdict is how a misdeed ended.
type verdict int

const (
	stopped verdict = iota
	through         // the victim was harmed
	untried         // the agent never reported it, so nothing is known
	moot            // this machine refuses it without us
)

// An attempt is a misdeed on one stage: what the kernel answered, and whether the victim was harmed.
type attempt struct {
	report *report // nil if the agent did not get to it
	harmed bool
}

// judge compares the attempt in the sandbox with the one outside. Harm counts whatever the control says.
func judge(control, inside attempt) verdict {
	switch {
	case inside.harmed:
		return through
	case inside.report == nil:
		return untried
	case !control.harmed:
		return moot
	}
	return stopped
}

type result struct {
	title   string
	verdict verdict
	outside string // how it went without a sandbox
	wall    string // what stopped it
}

type tally struct{ tried, stopped, moot, failed int }

func count(results []result) (t tally) {
	for _, r := range results {
		t.tried++
		switch r.verdict {
		case stopped:
			t.stopped++
		case moot:
			t.moot++
		default:
			t.failed++
		}
	}
	return t
}
